"""What a gate says to a SQL database, as text and parameters; pure."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from recipes._rules.fence import FIELDS, Pass, Seen

__all__ = ["STYLES", "Statement", "admission", "checked_style", "checked_table", "ddl", "rendered", "step"]

STYLES = ("qmark", "numeric", "named", "format", "pyformat")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
TRIES = 5


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; parameters are marked ``:name`` in its text.

    Attributes:
        text: The SQL.
        values: The parameters.
        reads: Whether its answer is a row, or None; else it is how many rows matched.
    """

    text: str
    values: dict[str, Any]
    reads: bool = False


def checked_table(table: Any) -> str:
    """Return a name that can be used in SQL as it is; ValueError if it cannot."""
    if not isinstance(table, str) or not IDENTIFIER.fullmatch(table):
        raise ValueError(f"{table!r} is no name of a table: use letters, digits and _, or schema.table")
    return table


def checked_style(style: str | None) -> str | None:
    """Return a style of parameters; ValueError if DB-API knows no such."""
    if style is not None and style not in STYLES:
        raise ValueError(f"paramstyle={style!r}: use {', '.join(map(repr, STYLES))}")
    return style


def ddl(table: str) -> str:
    """Return the statement that makes the table."""
    columns = ",\n".join(f"    {field} BIGINT NOT NULL" for field in FIELDS)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (\n    resource VARCHAR(255) NOT NULL PRIMARY KEY,\n{columns}\n)"
    )


def admission(table: str, asking: Pass) -> Generator[Statement, Any, None]:
    """Have a token pass the gate in one table, or raise StaleToken.

    One conditional UPDATE carries the rule: it locks the row to the end of the transaction,
    and judges what the row says *then*, whichever transaction committed while it waited. Only what it did
    not find is looked into.
    """
    resource = {"resource": asking.name}
    for _ in range(TRIES):
        if (yield _raising(table, asking)) == 1:
            return
        row = yield Statement(
            f"SELECT newest, writer FROM {table} WHERE resource = :resource", resource, True
        )
        if row is None:
            yield _first(table, resource)
        else:
            Seen(*row).after(asking)  # raises, but for a row that came just now
    raise ValueError(
        f"the driver does not say how many rows an UPDATE of {table} matched: have it do so "
        "(MySQL: the client flag FOUND_ROWS), or make the row of this resource beforehand"
    )


def _raising(table: str, asking: Pass) -> Statement:
    raised = ", ".join(
        f"{field} = CASE WHEN {field} < :token THEN :token ELSE {field} END" for field in asking.rule.raises
    )
    where = f"resource = :resource AND {asking.rule.floor} <= :token"
    values = {"resource": asking.name, "token": asking.token}
    return Statement(f"UPDATE {table} SET {raised} WHERE {where}", values)


def _first(table: str, resource: dict[str, Any]) -> Statement:
    """Make the row; of two that do so at once one waits for the other, and then does nothing."""
    text = f"INSERT INTO {table} (resource, newest, writer) VALUES (:resource, 0, 0) ON CONFLICT DO NOTHING"
    return Statement(text, resource)


def step(program: Generator[Statement, Any, None], answer: Any) -> Statement | None:
    """Send ``program`` an answer (None at first) and return what it says next; None at its end."""
    try:
        return program.send(answer)
    except StopIteration:
        return None


def rendered(statement: Statement, style: str) -> tuple[str, Any]:
    """Return text and parameters in one of DB-API's styles."""
    if style == "named":
        return statement.text, statement.values
    if style == "pyformat":
        return re.sub(r":(\w+)", r"%(\1)s", statement.text), statement.values
    names: list[str] = re.findall(r":(\w+)", statement.text)
    marks = {"qmark": "?", "format": "%s"}
    numbers = iter(range(1, len(names) + 1))
    text = re.sub(r":\w+", lambda _: marks.get(style) or f":{next(numbers)}", statement.text)
    return text, [statement.values[name] for name in names]
