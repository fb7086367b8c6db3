"""The stores that clients are broken on, by the names of servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import recipes
from integration import servers
from integration.breaking.judge import Place
from integration.stores import make_tables

__all__ = ["STORES", "left", "prepared"]


def _started(make: Callable[[], servers.Server]) -> Callable[[], servers.Server]:
    return lambda: make().start()


STORES: Mapping[str, Callable[[], servers.Server]] = {
    "sqlite": servers.Files,
    **{name: _started(promised.make) for name, promised in servers.ALL.items() if name != "etcd-3.5"},
    "postgres-15": _started(servers.postgres),
    "mariadb-10.11": _started(servers.mariadb),
    "memcached-1.6": _started(servers.memcached),
}
"""Started."""


def prepared(server: servers.Server, prefix: str) -> tuple[Callable[[str], str], dict[str, Any]]:
    """Return the URL of each place and the options of clients, which are granted at once what is free.

    A process that is stopped amid a transaction stops the others at its file, so each place has its own.
    """
    options = dict(server.options)
    if isinstance(server, servers.Memcached):
        options["restart_grace"] = 0
    elif isinstance(server, servers.Redis):
        server.wait_granting()
    elif isinstance(server, servers.Database):
        make_tables(server)
    return lambda place: server.url(f"{prefix}/{place}"), options


def left(server: servers.Server, prefix: str, within_s: float, found: Collection[Place] = ()) -> list[str]:
    """Return what is left below a prefix after so many seconds: contenders, sessions, receipts.

    A session that its process had no time to end, or could not, is ended by the next client that begins. So
    one begins at a file that has such a session. A database has the rivals of other places; and its receipts
    stay.

    Args:
        server: Where.
        prefix: Of all places.
        within_s: How long to wait for it to go.
        found: The places.
    """
    stay = tuple(f"{prefix}/{place.name}:" for place in found if place.slept_through_its_end)
    unended = {
        f"{prefix}/{place.name}" for place in found if place.had_no_time_to_end or place.end_was_struck
    }

    def look() -> list[str]:
        if isinstance(server, servers.Memcached):
            return server.keys(f"{prefix}/")
        if isinstance(server, servers.Redis):
            return [*servers.leftovers(server, f"{prefix}/*").contenders]  # receipts run out by themselves
        if isinstance(server, servers.Database):
            receipts = server.ask("SELECT name, session FROM recipes_receipt")
            theirs = [(name, session) for name, session in receipts if name.startswith(f"{prefix}/")]
            kept = [str((name, session)) for name, session in theirs if not name.startswith(stay)]
            return [*(one for one in server.contenders() if one.startswith(f"{prefix}/")), *kept]
        if not isinstance(server, servers.Files):
            return [*servers.leftovers(server, prefix).contenders]
        return [one for name in _files(server, prefix) for one in _rows(server, name, name in unended)]

    servers.eventually(lambda: not look(), within_s)
    return look()


def _files(server: servers.Files, prefix: str) -> list[str]:
    paths = [path for path in (server.home / prefix).glob("*") if path.is_file() and "-" not in path.suffix]
    return [f"{prefix}/{path.name}" for path in paths if not path.name.endswith(("-wal", "-shm"))]


def _rows(server: servers.Files, name: str, unended: bool) -> list[str]:
    found = [
        *server.contenders(name),
        *(f"{name}: receipt {row}" for row in server.ask(name, "SELECT * FROM receipt")),
    ]
    if found and unended:
        with recipes.connect(server.url(name)):
            return _rows(server, name, unended=False)
    return found
