"""The statements as text, for one driver: compiled once in a process, however many clients and engines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from recipes._record import record
from recipes.stores.sql.requests import Ask

__all__ = ["Call", "Said", "Texts", "call_of"]


_KNOWN: dict[tuple[Any, ...], Texts] = {}


@record
class Said:
    """One statement as its driver takes it; no values: None."""

    text: str
    values: Any = None


@record
class _Made:
    """A compiled statement, with lists of these lengths.

    Attributes:
        text: For the driver.
        order: The names of its values, where the driver takes them by position.
        constants: The values that are always the same; the others are replaced.
        several: The names of the values of each list.
    """

    text: str
    order: list[str] | None
    constants: dict[str, Any]
    several: dict[str, list[str]]


class Texts:
    """What statements are for one driver.

    Args:
        dialect: SQLAlchemy's, of the driver.
    """

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect
        self._compiled: dict[int, Any] = {}
        self._made: dict[tuple[int, ...], _Made] = {}

    @staticmethod
    def of(dialect: Any) -> Texts:
        """Return what is the same for all engines with such a dialect, which differs by its server.

        One driver is for MySQL and MariaDB, and a clause of one of them is a wrong one on the other.
        """
        server = getattr(dialect, "is_mariadb", False), getattr(dialect, "server_version_info", None)
        key = dialect.name, dialect.driver, dialect.paramstyle, *server
        return _KNOWN.get(key) or _KNOWN.setdefault(key, Texts(dialect))

    def __call__(self, ask: Ask) -> Said:
        """Return a statement with its values."""
        values, key = ask.values, [id(ask.statement)]
        if any(type(value) is list for value in values.values()):
            values = {name: _padded(one) if type(one) is list else one for name, one in values.items()}
            key += [len(one) for one in values.values() if type(one) is list]
        made = self._made.get(tuple(key))
        if made is None:
            made = self._made[tuple(key)] = self._make(ask.statement, values)
        found = dict(made.constants)
        for name, value in values.items():
            if name in made.several:
                found.update(zip(made.several[name], value, strict=True))
            else:
                found[name] = value
        return Said(made.text, found if made.order is None else [found[name] for name in made.order])

    def _make(self, statement: Any, values: dict[str, Any]) -> _Made:
        compiled = self._compiled.get(id(statement))
        if compiled is None:  # it keeps the statement, so that no other gets its id
            compiled = self._compiled[id(statement)] = statement.compile(dialect=self._dialect)
        state = compiled.construct_expanded_state(values)
        several = dict(state.parameter_expansion)
        order = list(state.positiontup) if compiled.positional else None
        return _Made(state.statement, order, dict(state.parameters), several)


def _padded(some: list[Any]) -> list[Any]:
    """Return a list of a length that is a power of two, its last one repeated: few lengths, few texts."""
    return some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some)) if some else some


# A whole act in one call.


@record
class Call:
    """An act as a function of PostgreSQL, which is a connection's own and goes with it.

    Attributes:
        made: The statement that makes it.
        ask: Calls it; its rows are those of the last statement of the act.
    """

    made: Said
    ask: Ask


_TYPES = {str: "text", int: "bigint", bytes: "bytea"}
_calls: dict[tuple[str, ...], tuple[str, Any]] = {}


def call_of(asks: Sequence[Ask]) -> Call:
    """Return a function of these statements, the last of which reads whole numbers.

    Each statement of a function sees what was committed before that statement, as in a transaction of its
    own under READ COMMITTED; and the function is one transaction.
    """
    parts = [_NAMED(ask) for ask in asks]
    given = {name: value for part in parts for name, value in part.values.items() if _is_given(name)}
    key = tuple(part.text for part in parts)
    known = _calls.get(key)
    if known is None:
        known = _calls[key] = _function(parts, given, len(asks[-1].statement.selected_columns))
    made, call = known
    return Call(Said(made), Ask(call, given))


def _function(parts: Sequence[Said], given: dict[str, Any], columns: int) -> tuple[str, Any]:
    *steps, last = (
        part.text % {name: name if _is_given(name) else _constant(one) for name, one in part.values.items()}
        for part in parts
    )
    lines = [
        f"{step} INTO ignored_;" if step.startswith(("SELECT", "WITH")) else f"{step};" for step in steps
    ]
    body = "\n".join(["DECLARE ignored_ record; BEGIN", *lines, f"RETURN QUERY {last};", "END"])
    name = f"pg_temp.recipes_{hashlib.sha256(body.encode()).hexdigest()[:24]}"
    takes = ", ".join(f"{one} {_TYPES[type(value)]}" for one, value in given.items())
    shows = ", ".join(f"c{number} bigint" for number in range(columns))
    made = f"CREATE OR REPLACE FUNCTION {name}({takes}) RETURNS SETOF record LANGUAGE plpgsql AS $recipes$"
    names = ", ".join(f":{one}" for one in given)
    return f"{made}\n{body}\n$recipes$", text(f"SELECT * FROM {name}({names}) AS found({shows})")  # noqa: S608 - names of our own


def _is_given(name: str) -> bool:
    """Whether it is a value of an `Ask`; the constants of a statement have names of SQLAlchemy's."""
    return name.endswith("_") or "__" in name


def _constant(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'{}'".format(value.replace("'", "''"))


_NAMED = Texts(PGDialect_psycopg())  # type: ignore[no-untyped-call]
