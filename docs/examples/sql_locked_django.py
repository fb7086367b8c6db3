import django
from django.conf import settings

if not settings.configured:  # as a project has it in its settings.py
    place = {"HOST": "127.0.0.1", "PORT": "5432", "NAME": "app", "USER": "app", "PASSWORD": "secret"}
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **place}})
    django.setup()

from django.db import connection, transaction

from recipes import sql

with transaction.atomic():
    token = sql.locked(connection, "stock/7", timeout=5)
    with connection.cursor() as cursor:  # or your models: get them behind that line
        cursor.execute("SELECT 3")
        (left,) = cursor.fetchone()
    print("left:", left - 1, "token", token)
