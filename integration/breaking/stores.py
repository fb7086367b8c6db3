"""The stores that clients are broken on, by the names of servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from integration import servers
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


def left(server: servers.Server, prefix: str, within_s: float, unended: Collection[str] = ()) -> list[str]:
    """Return what is left below a prefix after so many seconds: contenders, sessions, receipts.

    Args:
        server: Where.
        prefix: Of all places.
        within_s: How long to wait for it to go.
        unended: The places whose sessions nobody has ended: the receipts of such a one stay in a database
            until a client that begins tidies it away, a day later.
    """
    stay = tuple(f"{prefix}/{place}:" for place in unended)

    def look() -> list[str]:
        if isinstance(server, servers.Memcached):
            return server.keys(f"{prefix}/")
        if isinstance(server, servers.Redis):
            return [*servers.leftovers(server, f"{prefix}/*").contenders]  # receipts run out by themselves
        if isinstance(server, servers.Database):
            receipts = server.ask("SELECT name, session FROM recipes_receipt")
            own = [str((name, session)) for name, session in receipts if not name.startswith(stay)]
            return [*(one for one in server.contenders() if one.startswith(prefix)), *own]
        if not isinstance(server, servers.Files):
            return [*servers.leftovers(server, prefix).contenders]
        files = [
            path for path in (server.home / prefix).glob("*") if path.is_file() and "-" not in path.suffix
        ]
        names = [f"{prefix}/{path.name}" for path in files if not path.name.endswith(("-wal", "-shm"))]
        return [
            one
            for name in names
            for one in (*server.contenders(name), *server.ask(name, "SELECT * FROM receipt"))
        ]

    servers.eventually(lambda: not look(), within_s)
    return look()
