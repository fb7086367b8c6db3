"""PgBouncer, a pool of connections before a PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from integration.harness.demoted import demoted, unprivileged
from integration.harness.postgres import Postgres
from integration.harness.process import Server
from integration.harness.throwaway import free_ports

__all__ = ["PgBouncer"]

USERS = '"app" "app"\n"postgres" ""\n'
"""Who is let in, and with what the pool goes to the server."""


class PgBouncer(Server):
    """A PgBouncer on loopback before one server, which belongs to the caller.

    Args:
        label: In errors.
        binary: The program.
        server: Where it connects to.
        mode: What a client keeps a connection for: a ``"transaction"`` or its ``"session"``.
        pool: How many connections it has to the server at most.
        settings: More of its configuration.
    """

    scheme = "postgresql"

    def __init__(
        self,
        label: str,
        binary: Path,
        server: Postgres,
        *,
        mode: str = "transaction",
        pool: int = 100,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(label, *free_ports(1))
        self.binary = binary
        self.server = server
        self.user = unprivileged("postgres")
        self.settings = {
            "listen_addr": self.host,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self.home / "users"),
            "admin_users": "postgres",
            "pool_mode": mode,
            "default_pool_size": str(pool),
            "max_client_conn": "1000",
            "server_login_retry": "0.2",  # s, for servers that are started again
            **(settings or {}),
        }

    def prepare(self) -> None:
        lines = ["[databases]", f"* = host={self.server.host} port={self.server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in self.settings.items()]
        (self.home / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        (self.home / "users").write_text(USERS)
        if self.user is not None:
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)

    def command(self) -> Sequence[str]:
        return demoted(self.user, [self.binary, self.home / "pgbouncer.ini"], tether="KILL")

    def healthy(self) -> bool:
        """Whether it answers itself, whatever its server does."""
        try:
            self.show("VERSION")
        except psycopg.Error:
            return False
        return True

    def version(self) -> str:
        return str(self.show("VERSION")[0][0]).split()[-1]

    def show(self, what: str) -> list[tuple[object, ...]]:
        """Return what it tells of itself."""
        return self._ask(f"SHOW {what}")

    def hold(self) -> None:
        """Have it finish the transactions under way, and begin no others; its clients stay connected."""
        self._ask("PAUSE")

    def lead_to(self, server: Postgres) -> None:
        """Have it go on, with another server; its clients stay connected."""
        self.server = server
        self.prepare()
        self._ask("RELOAD")
        self._ask("RESUME")

    def _ask(self, command: str) -> list[tuple[object, ...]]:
        place = {"host": self.host, "port": self.port, "user": "postgres", "dbname": "pgbouncer"}
        with psycopg.connect(**place, autocommit=True, connect_timeout=2) as connection:  # type: ignore[arg-type]
            found = connection.execute(command)
            return list(found.fetchall()) if found.description else []
