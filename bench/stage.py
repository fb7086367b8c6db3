"""Where all is measured: the servers, started when first used, and crews of contenders on them."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.kinds import KINDS, Kind, command
from integration import servers
from integration.fleet.peers import Process
from integration.harness.process import Server, ServerUnavailable
from integration.harness.throwaway import memory_directory
from integration.stores import make_tables

__all__ = ["Alone", "Crew", "Stage", "Turn", "cpu_s"]

DATABASES = {"postgres": servers.postgres, "mariadb": servers.mariadb}
PATIENCE_S = 60.0
BEFORE_START_S = 0.1
WARM_CYCLES = 50
CPU_CLOCK = 2  # of the clock that Linux has for each process: clock_getcpuclockid(3)


@dataclass(frozen=True)
class Alone:
    """What one contender did alone: nanoseconds of each acquire and release, and CPU seconds."""

    took: list[int]
    cpu_s: float
    server_cpu_s: float


@dataclass(frozen=True)
class Turn:
    """What a crew did in one window of time.

    Attributes:
        spans: When each grant was held, of each contender, in nanoseconds of CLOCK_MONOTONIC.
        start: When all began to come.
        end: When they stopped coming.
        cpu_s: CPU seconds of the contenders, and of their server, from start to end of all.
        server_cpu_s: Of the server alone.
    """

    spans: list[list[tuple[int, int]]]
    start: int
    end: int
    cpu_s: float
    server_cpu_s: float


class Crew:
    """Contenders of one kind, each a process."""

    def __init__(self, kind: Kind, address: str, server_pid: int | None) -> None:
        self.kind = kind
        self._command = command(kind, address)
        self._server_pid = server_pid
        self._members: list[Process] = []
        self.names = 0

    def muster(self, count: int) -> list[Process]:
        """Return so many members, started if they are not there yet."""
        fresh = [Process(self._command) for _ in range(count - len(self._members))]
        self._members += fresh
        for member in fresh:
            answer = self._answer(member)
            assert answer == "hello", f"{self.kind.name} should be ready, and says {answer}"
        self._warm_up(fresh)
        return self._members[:count]

    def _warm_up(self, members: Sequence[Process]) -> None:
        """Have each do, alone, what it will do: connections, caches and Java's compiler are ready then."""
        for number, member in enumerate(members):
            member.tell(f"use {self.kind.name}-warm-{number} lock")
            member.tell(f"cycles {WARM_CYCLES} 0")
        for member in members:
            assert self._answer(member) == "ready"
            self._answer(member)

    def use(self, count: int, sides: Sequence[str] = ()) -> list[Process]:
        """Have so many members use a lock that nobody used before."""
        members = self.muster(count)
        self.names += 1
        for number, member in enumerate(members):
            side = sides[number] if sides else "lock"
            member.tell(f"use {self.kind.name}-{self.names} {side}")
        for member in members:
            assert self._answer(member) == "ready"
        return members

    def cycles(self, count: int, pause_s: float = 0.0) -> Alone:
        """Have one acquire and release, alone, each time after a pause."""
        (member,) = self.use(1)
        before, server = cpu_s(member.pid), self._server_cpu()
        member.tell(f"cycles {count} {int(pause_s * 1e9)}")
        took: list[int] = self._answer(member)
        return Alone(took, cpu_s(member.pid) - before, self._server_cpu() - server)

    def contend(self, count: int, for_s: float, hold_s: float, sides: Sequence[str] = ()) -> Turn:
        """Have so many come again and again for a while, and hold each time."""
        members = self.use(count, sides)
        pids = [member.pid for member in members]
        start = time.monotonic_ns() + int(BEFORE_START_S * 1e9)
        end = start + int(for_s * 1e9)
        before, server = sum(map(cpu_s, pids)), self._server_cpu()
        for member in members:
            member.tell(f"contend {start} {end} {int(hold_s * 1e9)}")
        spans = [[(got, gone) for got, gone in self._answer(member)] for member in members]
        return Turn(spans, start, end, sum(map(cpu_s, pids)) - before, self._server_cpu() - server)

    def close(self) -> None:
        """End all members."""
        for member in self._members:
            member.finish(5)
        self._members = []

    def _server_cpu(self) -> float:
        return cpu_s(self._server_pid) if self._server_pid is not None else 0.0

    def _answer(self, member: Process) -> Any:
        said = member.next_line(PATIENCE_S)
        if not said:
            raise AssertionError(f"a contender of {self.kind.name} ended, or was silent for {PATIENCE_S} s")
        return json.loads(said)


class Five:
    """Five Redis that know nothing of each other; what the first does stands for the others."""

    def __init__(self) -> None:
        self._all = [servers.redis(install=False) for _ in range(5)]

    @property
    def address(self) -> str:
        """Return where they are."""
        return ",".join(one.address for one in self._all)

    @property
    def pid(self) -> int:
        """Return the id of the first one's process."""
        return self._all[0].pid

    def version(self) -> str:
        """Return what they say they are."""
        return self._all[0].version()

    def __enter__(self) -> Self:
        for one in self._all:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._all:
            one.close()


class Stage:
    """All servers and crews of a run; a context manager ends them.

    Args:
        etcd: Which etcd of ``integration.servers.ALL``.
        only: No other kinds than these; all if there are none.
    """

    def __init__(self, etcd: str = "etcd-3.4", only: Collection[str] = ()) -> None:
        self._etcd = etcd
        self._only = only
        self._open = contextlib.ExitStack()
        self._servers: dict[str, Server | Five] = {}
        self._crews: dict[str, Crew] = {}
        self.missing: dict[str, str] = {}

    def server(self, store: str) -> Server | Five:
        """Return a running server.

        Raises:
            ServerUnavailable: It cannot be had.
        """
        if store not in self._servers:
            self._servers[store] = self._open.enter_context(self._started(store))
        return self._servers[store]

    def _started(self, store: str) -> Server | Five:
        if store == "redis":
            return servers.redis(install=False).start()
        if store == "redis-five":
            return Five()
        if store == "memcached":
            fresh = servers.memcached().start()
            fresh.wait_granting()
            return fresh
        if store in DATABASES:
            one = DATABASES[store](install=False, keeps=True, folder=self.disk).start()
            make_tables(one)
            return one
        names = {"zookeeper": "zookeeper-3.8", "etcd": self._etcd}
        return servers.ALL[names[store]].started()

    @property
    def disk(self) -> Path:
        """The folder in which databases have their data, which they write to the disk at each commit."""
        return Path(tempfile.gettempdir())

    def folder(self) -> Path:
        """Return a folder, in memory if there is room."""
        return Path(self._open.enter_context(tempfile.TemporaryDirectory(dir=memory_directory())))

    def crews(self, *names: str) -> list[Crew]:
        """Return the crews of those kinds that can be had; the others are noted in `missing`."""
        found = []
        for name in names:
            if self._only and name not in self._only:
                continue
            try:
                found.append(self._crew(KINDS[name]))
            except ServerUnavailable as reason:
                self.missing[name] = str(reason)
        return found

    def _crew(self, kind: Kind) -> Crew:
        if kind.name not in self._crews:
            if kind.store == "folder":
                self._crews[kind.name] = Crew(kind, str(self.folder()), None)
            else:
                server = self.server(kind.store)
                self._crews[kind.name] = Crew(kind, server.address, server.pid)
        return self._crews[kind.name]

    def versions(self) -> Mapping[str, str]:
        """Return what the servers that were used say they are."""
        return {store: server.version() for store, server in self._servers.items()}

    def dismiss(self) -> None:
        """End all crews: what comes next has the machine for itself."""
        for crew in self._crews.values():
            crew.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()
        self._open.close()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has had, its ended threads included (Linux)."""
    return time.clock_gettime((~pid << 3) | CPU_CLOCK)
