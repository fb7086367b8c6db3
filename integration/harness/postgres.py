"""PostgreSQL servers: one, and a primary with a standby."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psycopg

from integration.harness.cluster import Cluster
from integration.harness.database import CONNECTIONS, Database
from integration.harness.demoted import demoted
from integration.harness.process import eventually

__all__ = ["Postgres", "PostgresPair"]

ACCESS = """
host all app all scram-sha-256
host all all all trust
host replication all all trust
"""
"""Who may connect: the superuser needs no password."""

FIRST = """
CREATE ROLE app LOGIN PASSWORD 'app';
CREATE DATABASE app OWNER app;
"""
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
FROZEN = {"T", "t", "Z", ""}
GONE = {"Z", ""}


class Postgres(Database):
    """One PostgreSQL on loopback; its superuser ``postgres`` needs no password."""

    scheme = "postgresql"
    users = ("postgres",)
    now = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)"
    ends_by = signal.SIGINT  # else it waits for its clients to leave

    def initialise(self, folder: Path) -> None:
        initdb = ["--no-sync", "--auth=trust", "--username=postgres", "--locale=C", "--encoding=UTF8"]
        self.run([self.programs / "initdb", *initdb, "--pgdata", folder / "data"], folder=folder)
        (folder / "data" / "pg_hba.conf").write_text(ACCESS)
        single = [self.programs / "postgres", "--single", "-c", "fsync=off", "-D", folder / "data"]
        self.run([*single, "postgres"], folder=folder, given=FIRST)

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            **({} if self.keeps else FAST),
            "shared_buffers": "16MB",
            "max_connections": str(CONNECTIONS),
            "dynamic_shared_memory_type": "mmap",  # in the data directory, where it goes with the rest
            **self.settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # With SIGINT as its tether, to leave no memory behind.
        return demoted(self.user, [self.programs / "postgres", "-D", self.data, *options], tether="INT")

    def healthy(self) -> bool:
        """Whether it lets the superuser in."""
        try:
            with self.connect("postgres", connect_timeout=2):
                return True
        except psycopg.Error:
            return False

    def version(self) -> str:
        said = subprocess.run(
            [self.programs / "postgres", "--version"], capture_output=True, text=True, timeout=20, check=True
        )
        return said.stdout.split()[2]

    def connect(self, database: str = "app", **options: Any) -> psycopg.Connection[Any]:
        """Return a connection of the superuser's, without transactions; close it."""
        place = {"host": self.host, "port": self.port, "user": "postgres", "dbname": database}
        return psycopg.connect(**{**place, "autocommit": True, "connect_timeout": 5, **options})

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query of the superuser's finds in the database ``app``."""
        with self.connect() as connection:
            cursor = connection.execute(query, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def one(self, query: str, *values: object) -> Any:
        """Return the only value that a query finds."""
        ((value,),) = self.ask(query, *values)
        return value

    def terminate(self) -> int:
        """End the connections of all clients, as an operator does; return how many there were."""
        ended = self.ask(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(ended)

    @property
    def leads(self) -> bool:
        """Whether it says that it is no standby."""
        return not self.one("SELECT pg_is_in_recovery()")

    def follow(self, primary: Postgres) -> None:
        """Become a standby of a primary that runs, with a new copy of its data; this one should not run."""
        self.own_home()
        self.run(["rm", "-rf", self.data])
        backup = ["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--pgdata", self.data]
        self.run([self.programs / "pg_basebackup", *backup, "--dbname", primary.conninfo])

    @property
    def conninfo(self) -> str:
        """Return where a standby finds it."""
        return f"host={self.host} port={self.port} user=postgres"

    def pause(self) -> None:
        """Stop all its processes in their tracks (SIGSTOP)."""
        super().pause()  # the first, so that it starts no others
        for child in self._children():
            _send(child, signal.SIGSTOP)
        assert eventually(lambda: {_state(child) for child in self._children()} <= FROZEN, 10, every_s=0.005)

    def resume(self) -> None:
        """Let all its processes go on (SIGCONT)."""
        for child in self._children():
            _send(child, signal.SIGCONT)
        super().resume()

    def kill(self) -> None:
        """End all its processes at once (SIGKILL), paused or not."""
        if not self.running:
            return
        super().pause()
        children = self._children()
        super().kill()
        for child in children:
            _send(child, signal.SIGKILL)
        assert eventually(lambda: {_state(child) for child in children} <= GONE, 10, every_s=0.005)
        self._remove_shared_memory()

    def _children(self) -> list[int]:
        if not self.running:
            return []
        with contextlib.suppress(OSError):
            return list(map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()))
        return []

    def _remove_shared_memory(self) -> None:
        """Remove the segment that a killed server leaves behind."""
        with contextlib.suppress(OSError, ValueError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            if int(lines[0]) == self.pid and len(lines) > 6:
                subprocess.run(["ipcrm", "-m", lines[6].split()[1]], capture_output=True, check=False)


class PostgresPair(Cluster[Postgres]):
    """A primary, and a standby to which it streams asynchronously; the standby is promoted by hand."""

    def __init__(
        self, label: str, programs: Path, *, keeps: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        more = {"wal_keep_size": "256MB", **(settings or {})}
        super().__init__(
            [Postgres(f"{label}-{number}", programs, keeps=keeps, settings=more) for number in (1, 2)]
        )
        self.current = self.members[0]
        """The primary now."""
        self._follows = True

    @property
    def standby(self) -> Postgres:
        """Return the other one: the standby, or what was the primary before the last promotion."""
        return self.others(self.current)[0]

    def start(self) -> Self:
        """Start the primary, and the standby unless it was left; wait until it receives what is written."""
        with self._starting:
            self.current.resume()
            self.current.start()
            if not self._follows:
                return self
            self.standby.resume()
            if not self.standby.data.exists():
                self.standby.follow(self.current)
            self.standby.start()
            assert eventually(self.streams, 60), "the standby should follow the primary"
        return self

    def leads(self, member: Postgres) -> bool:
        try:
            return member.leads
        except psycopg.Error:
            return False

    def streams(self) -> bool:
        """Whether the standby receives what the primary writes."""
        return self.standby.ask("SELECT status FROM pg_stat_wal_receiver") == [("streaming",)]

    def catch_up(self) -> None:
        """Wait until the standby has all that was committed up to now."""
        with self.current.connect(options="-c synchronous_commit=local") as connection:
            ((written,),) = connection.execute("SELECT pg_logical_emit_message(true, 'here', '')")
        has = "SELECT coalesce(pg_last_wal_replay_lsn() >= %s, false)"
        assert eventually(lambda: self.standby.one(has, written), 60), "the standby should catch up"

    def cut(self) -> None:
        """End the replication: the standby receives nothing more, and both go on."""
        self._receive_from("")
        assert eventually(lambda: not self.standby.ask("SELECT 1 FROM pg_stat_wal_receiver"), 60)

    def heal(self) -> None:
        """Go on with the replication after a `cut`."""
        self._receive_from(self.current.conninfo)
        assert eventually(self.streams, 60), "the standby should follow the primary again"

    def _receive_from(self, conninfo: str) -> None:
        with self.standby.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET primary_conninfo = '{conninfo}'")
            connection.execute("SELECT pg_reload_conf()")

    def promote(self) -> Postgres:
        """Make the standby a primary and return it; the former primary may go on, and nobody follows it."""
        promoted = self.standby
        assert promoted.one("SELECT pg_promote(true, 60)"), "the standby should be promoted"
        self.current, self._follows = promoted, False
        return promoted

    def fail_over(self, *, lose: int = 1, meanwhile: Callable[[], object] | None = None) -> Postgres:
        """Kill the primary and promote the standby; return it.

        Args:
            lose: How many transactions that wrote, at least, the primary has committed and the standby
                lacks. With 0 it has received all of before the call.
            meanwhile: Called when the standby receives nothing more, before the kill; by default other
                clients have to write.
        """
        former = self.current
        self.cut() if lose else self.catch_up()
        begin = self._committed()
        if meanwhile is not None:
            meanwhile()
        if lose:
            enough = eventually(lambda: self._committed() >= begin + lose, 60, every_s=0.005)
            assert enough, "the primary should have committed what the standby lacks"
        former.kill()
        return self.promote()

    def _committed(self) -> int:
        """Return how many transactions that wrote there have been on the primary."""
        return int(self.current.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))

    def rejoin(self) -> None:
        """Have the former primary follow the one of now, with a new copy of its data."""
        self.standby.kill()
        self.standby.follow(self.current)
        self._follows = True
        self.start()


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _state(pid: int) -> str:
    """Return the state of a process, a letter, or nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
