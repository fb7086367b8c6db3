"""``recipes store schema``: the statements that make the tables of a database."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from recipes.cli import codes

__all__ = ["store_command"]

SCHEMES = ("postgresql", "mysql", "mariadb")
EXAMPLES = """
\b
Examples:
  recipes store schema --url postgresql://host/database | psql
  recipes store schema --url mysql://host/database --tables app_ > tables.sql
  recipes store schema --url postgresql://host/database --layout shedlock

Exit codes: 0 printed, 2 wrong arguments.
"""


@click.group("store", epilog=EXAMPLES)
def store_command() -> None:
    """Prepare a store."""


@store_command.command("schema", short_help="Print the statements that make the tables.", epilog=EXAMPLES)
@click.option("--url", required=True, help="The store, such as postgresql://host/database; it is not asked.")
@click.option("--tables", metavar="PREFIX", help="What the names of the tables begin with (recipes_).")
@click.option("--layout", type=click.Choice(["shedlock"]), help="For clients with this layout.")
def schema_command(*, url: str, tables: str | None, layout: str | None) -> int:
    """Print the statements that make the tables of a database, for a migration or an administrator."""
    try:
        store = urlsplit(url).scheme.partition("+")[0]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    if store not in SCHEMES:
        known = " or ".join(f"{one}://" for one in SCHEMES)
        raise click.BadParameter(f"a URL with {known} has tables, not {store or url!r}", param_hint="--url")
    try:
        from recipes.sql import schema  # noqa: PLC0415 - needs SQLAlchemy
    except ImportError:
        raise click.UsageError(f"{store}:// needs SQLAlchemy: pip install 'sqlalchemy>=2'") from None
    try:
        made = schema(store, layout=layout) if tables is None else schema(store, tables, layout)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--tables") from None
    for statement in made:
        click.echo(f"{statement};\n")
    return codes.OK
