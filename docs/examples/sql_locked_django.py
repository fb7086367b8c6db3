import django
from django.conf import settings

if not settings.configured:  # what a project has in settings.py
    place = {"HOST": "127.0.0.1", "PORT": "5432", "NAME": "app"}
    user = {"USER": "app", "PASSWORD": "secret", "ENGINE": "django.db.backends.postgresql"}
    settings.configure(DATABASES={"default": place | user})
    django.setup()

from django.db import connection, transaction

from recipes import sql

with transaction.atomic():
    token = sql.locked(connection, "stock/7", timeout=5)
    with connection.cursor() as cursor:  # or your models: read them after the lock
        cursor.execute("SELECT 3")
        (left,) = cursor.fetchone()
    print("left:", left - 1, "token", token)
