"""Which server a connection leads to, learned before it is used for the first time; and making the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from recipes.errors import StoreError, StoreRefused, StoreUnavailable
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.carrying import HOLDING, begin_on_mysql, bounded, run
from recipes.stores.sql.meaning import Again, code_of, is_already_there, meaning
from recipes.stores.sql.requests import Work
from recipes.stores.sql.settings import Settings

__all__ = ["create", "entered", "left", "started"]

_POSTGRESQL = text(
    "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'),"
    " has_function_privilege('pg_control_system()', 'EXECUTE')"
    + "".join(f", set_config('{name}', '{value}', true)" for name, value in HOLDING.items())
)
_PLACE = text("SELECT pg_walfile_name(pg_current_wal_lsn())")
_SYSTEM = text("SELECT system_identifier FROM pg_control_system()")
_STARTED = text("SELECT CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT)")
_UNTOLD = {"55000", "0A000", "42501"}
"""What a server says that keeps the place in its log to itself, as Aurora's, or from this role."""
_MYSQL = text(
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'hostname', 'port',"
    " 'server_id', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on',"
    " 'group_replication_single_primary_mode')"
)
READ_ONLY = "the server is a standby, or takes no writes now"


class _Untold(Exception):
    """The server does not say which timeline it is on."""


def entered(connection: Connection, settings: Settings) -> tuple[int, str]:
    """Return until when nothing is granted there, by the server's clock in microseconds; and on which server.

    What is granted by that compares the server: a proxy may lead the same connection to another one.

    Raises:
        StoreUnavailable: It is a standby.
        StoreRefused: It cannot be used.
    """
    key = _key(settings)
    found: tuple[int, str] | None = connection.info.get(key)
    if found is None:
        found = connection.info[key] = _enter(connection, settings)
    return found


def started(connection: Connection, settings: Settings) -> None:
    """Note that the server grants, by its clock."""
    _, server = connection.info[_key(settings)]
    connection.info[_key(settings)] = 0, server


def left(connection: Connection, settings: Settings) -> None:
    """Note that what was learned of the server does not hold any more."""
    connection.info.pop(_key(settings), None)


def _key(settings: Settings) -> tuple[Any, ...]:
    return "recipes", settings.statements.tables.prefix, settings.grace_us


def _enter(connection: Connection, settings: Settings) -> tuple[int, str]:
    until_us, agreed_us, server = _noted(connection, settings)
    if agreed_us != settings.grace_us:
        theirs_s, ours_s = agreed_us / 1e6, settings.grace_us / 1e6
        raise StoreRefused(
            settings.label,
            f"restart_grace is {theirs_s:g} for the other clients and {ours_s:g} for this one; use the same,"
            f" or delete the row of {settings.statements.tables.server.name} while no client runs",
        )
    return int(until_us), server


def _noted(connection: Connection, settings: Settings) -> tuple[int, int, str]:
    if not settings.statements.notifies:
        return _note(connection, settings, _mysql)
    try:
        return _note(connection, settings, _postgresql)
    except _Untold:
        return _note(connection, settings, partial(_postgresql, tells=False))


def _note(
    connection: Connection, settings: Settings, learned: Callable[[Connection, str], str]
) -> tuple[int, int, str]:
    """Learn which server it is, and note it, in one transaction: the next may be with another server.

    It may lock the row that all others look at, so it ends soon if this process is stopped there.
    """
    unbounded = not (settings.own or settings.statements.notifies)
    with bounded(connection) if unbounded else nullcontext(), connection.begin():
        if unbounded:
            begin_on_mysql(connection, bound=True)
        life = learned(connection, settings.label)
        enter = partial(Acts(settings.statements, "", "", "").enter, life=life, grace_us=settings.grace_us)
        found: tuple[int, int, str] = run(connection, enter, Work())
    return found


def _postgresql(connection: Connection, label: str, *, tells: bool = True) -> str:
    """Return what changes when another server takes over, and not when this one restarts.

    Of one that does not tell, return when it was started, which no other shares: it changes then too.

    Raises:
        _Untold: It does not tell, and the transaction can only be rolled back.
    """
    standby, read_only, known, *_ = connection.execute(_POSTGRESQL).one()
    if standby or read_only == "on":
        raise _read_only(connection, label)
    if not tells:
        return f"0/{connection.execute(_STARTED).scalar_one()}"
    try:
        timeline = connection.execute(_PLACE).scalar_one()[:8]  # of the checkpoint it is behind a promotion
        system = connection.execute(_SYSTEM).scalar_one() if known else 0
    except DBAPIError as error:
        if code_of(error.orig) not in _UNTOLD:
            raise
        raise _Untold from error
    return f"{system}/{timeline}"


def _mysql(connection: Connection, label: str) -> str:
    facts: Mapping[str, str] = {name: value for name, value in connection.execute(_MYSQL)}  # noqa: C416 - rows are no pairs
    if any(facts.get(f"{one}read_only", "OFF") == "ON" for one in ("", "super_", "innodb_")):
        raise _read_only(connection, label)
    galera = facts.get("wsrep_on", "OFF") == "ON"
    if galera or facts.get("group_replication_single_primary_mode", "ON") == "OFF":
        one = "Galera" if galera else "a group in which every server takes writes (multi-primary)"
        raise StoreRefused(label, f"this is {one}: the lock of a row does not hold on its other servers")
    own = facts.get("server_uuid") or facts.get("server_uid")
    return own or "/".join(facts.get(one, "") for one in ("hostname", "port", "server_id"))


def _read_only(connection: Connection, label: str) -> StoreError:
    connection.invalidate()  # the next one may lead to another server
    return StoreUnavailable(label, READ_ONLY, unsent=True)


def create(connection: Connection, settings: Settings) -> None:
    """Make the tables that are missing; another client may do so at the same time."""
    for statement in settings.statements.tables.ddl(settings.statements.dialect):
        try:
            with connection.begin():
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            if not is_already_there(error) and not isinstance(
                meaning(error, settings.label, sent=False), Again
            ):
                raise
