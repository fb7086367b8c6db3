from alembic import op

from recipes.sql import schema

revision = "recipes"
down_revision = None


def upgrade() -> None:
    for statement in schema("postgresql"):
        op.execute(statement)
