from django.db import migrations

from recipes.sql import schema


class Migration(migrations.Migration):
    operations = [migrations.RunSQL(schema("postgresql"))]
