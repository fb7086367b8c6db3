"""A MariaDB server."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from integration.harness.database import CONNECTIONS, Database
from integration.harness.demoted import demoted
from integration.harness.process import ServerUnavailable, eventually

__all__ = ["MariaDb"]

FIRST = """
FLUSH PRIVILEGES;
CREATE DATABASE app;
CREATE USER app@'%' IDENTIFIED BY 'app';
GRANT ALL ON app.* TO app@'%';
"""
FAST = {"innodb-flush-log-at-trx-commit": "0", "innodb-doublewrite": "OFF", "sync-binlog": "0"}
KEEPING = {"innodb-flush-log-at-trx-commit": "1", "innodb-doublewrite": "ON", "sync-binlog": "1"}


class MariaDb(Database):
    """One MariaDB on loopback; its user ``root`` needs no password.

    In ``/dev/shm`` it maps its log, and a kill loses nothing, whatever it is told; on a disk it does.
    """

    scheme = "mysql"
    users = ("mysql",)
    now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

    def initialise(self, folder: Path) -> None:
        beside = os.pathsep.join([str(self.programs.parent), str(self.programs.parent.parent / "bin")])
        install = shutil.which("mariadb-install-db", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
        if install is None:
            raise ServerUnavailable(f"no mariadb-install-db beside {self.programs} or on the PATH")
        first = folder / "first.sql"
        first.write_text(FIRST)
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", f"--extra-file={first}"]
        options.append(f"--tmpdir={folder}")  # what is said by TMPDIR may be another user's
        small = ["--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0"]
        words = [install, "--no-defaults", f"--datadir={folder / 'data'}", *options, *small]
        self.run(words, folder=folder)

    @property
    def wanted(self) -> dict[str, str]:
        """Its configuration."""
        return {
            "datadir": str(self.data),
            "bind-address": self.host,
            "port": str(self.port),
            "socket": str(self.home / "socket"),
            "pid-file": str(self.home / "pid"),
            "tmpdir": str(self.home),
            "skip-name-resolve": "ON",
            "innodb-buffer-pool-size": "16M",
            "innodb-log-file-size": "8M",
            "max-connections": str(CONNECTIONS),
            **(KEEPING if self.keeps else FAST),
            **self.settings,
        }

    def command(self) -> Sequence[str]:
        options = [f"--{name}={value}" for name, value in self.wanted.items()]
        return demoted(self.user, [self.programs, "--no-defaults", *options], tether="KILL")

    def healthy(self) -> bool:
        """Whether it lets the administrator in."""
        try:
            with self.connect(connect_timeout=2, read_timeout=2):
                return True
        except (OSError, pymysql.MySQLError):
            return False

    def version(self) -> str:
        return str(self.one("SELECT VERSION()")).partition("-")[0]

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """Return a connection of the administrator's, without transactions; close it."""
        place = {"host": self.host, "port": self.port, "user": "root", "database": "app"}
        bounds = {"connect_timeout": 5, "read_timeout": 30, "write_timeout": 30}
        plain = {"ssl_disabled": True}  # else the driver reads all that the system trusts, for 15 ms
        return pymysql.connect(**{**place, **bounds, **plain, "autocommit": True, **options})

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query of the administrator's finds."""
        if "information_schema.innodb_" in query:  # it shows what it showed to who asked 0.1 s ago or less
            time.sleep(0.12)
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    def one(self, query: str, *values: object) -> Any:
        """Return the only value that a query finds."""
        ((value,),) = self.ask(query, *values)
        return value

    def terminate(self) -> int:
        """End the connections of all clients, as an operator does; return how many there were."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist"
                " WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
            )
            ended = {one for (one,) in cursor.fetchall()}
            for one in ended:
                with contextlib.suppress(pymysql.MySQLError):  # it may have left
                    cursor.execute("KILL %s", [one])

            def gone() -> bool:
                cursor.execute("SELECT id FROM information_schema.processlist")
                return ended.isdisjoint(one for (one,) in cursor.fetchall())

            assert eventually(gone, 30), "connections should end"
        return len(ended)
