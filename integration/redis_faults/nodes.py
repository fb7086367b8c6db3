"""Redis servers whose data may stay, whose clock may be wrong, and which replicate."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from integration.harness.finding import find_redis
from integration.harness.process import Server, eventually
from integration.harness.redis import Redis
from integration.harness.throwaway import free_ports

__all__ = ["Clocked", "Kept", "Sentinel", "becomes", "found"]

T = TypeVar("T")
ANSWER_S = 5.0
"""Longer than a busy machine keeps a server that is well from answering."""
SOON_S = 60.0


class Kept(Redis):
    """A Redis that writes an append-only file, synced every second, and restarts with it.

    Args:
        settings: What it is configured with besides.
    """

    def __init__(self, label: str = "redis-7", **settings: object) -> None:
        super().__init__(label, find_redis())
        self.settings = {name.replace("_", "-"): str(value) for name, value in settings.items()}
        self._appends = True

    def prepare(self) -> None:
        """Do nothing: all is said on the command line."""

    def command(self) -> Sequence[str]:
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "protected-mode": "no",
            "save": "",
            "appendonly": "yes" if self._appends else "no",
            "appendfsync": "everysec",
            "enable-debug-command": "yes",
            "dir": str(self.home),
            **self.settings,
        }
        return [
            str(self.binary),
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        ]

    def ask(self, *words: object) -> Any:
        """Send a command, on a connection of its own, and return the reply."""
        return _asked(self, words)

    def info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO."""
        said: dict[str, Any] = self.ask("INFO", section)
        return said

    def healthy(self) -> bool:
        """Whether it answers, with its data loaded."""
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False

    def master(self) -> bool:
        """Whether it says of itself that it is a master."""
        try:
            return bool(self.ask("ROLE")[0] == "master")
        except redis.RedisError:
            return False

    def follows(self, port: int) -> bool:
        """Whether it is a replica of the master at that port, and has its data."""
        try:
            role = self.ask("ROLE")
        except redis.RedisError:
            return False
        return bool(role[0] == "slave" and role[2] == port and role[3] == "connected")

    def wipe(self) -> None:
        """Remove its data; it should not run."""
        for path in self.home.iterdir():
            if path != self.log_path:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def start_from(self, snapshot: bytes) -> None:
        """Start with what `snapshot` returned, and nothing that came later; it should not run."""
        self.wipe()
        (self.home / "dump.rdb").write_bytes(snapshot)
        self._appends = False
        self.start()
        self._appends = True
        self.ask("CONFIG", "SET", "appendonly", "yes")

    def snapshot(self) -> bytes:
        """Return all its data of now."""
        self.ask("SAVE")
        return (self.home / "dump.rdb").read_bytes()


class Clocked(Kept):
    """A Redis whose wall clock can be set; it needs a C compiler."""

    def __init__(self, label: str = "redis-7", **settings: object) -> None:
        super().__init__(label, **settings)
        self.set_clock(0)


class Sentinel(Server):
    """One that watches over a master, with others."""

    scheme = "redis+sentinel"

    def __init__(self, master: Kept, quorum: int, *, down_ms: int, failover_ms: int) -> None:
        super().__init__("sentinel", *free_ports(1))
        self._master, self._quorum = master, quorum
        self._down_ms, self._failover_ms = down_ms, failover_ms

    @property
    def _config(self) -> Path:
        return self.home / "sentinel.conf"

    def prepare(self) -> None:
        """Write the configuration, which Sentinel goes on to write itself."""
        if self._config.exists():
            return
        name, master = "mymaster", self._master
        lines = [
            f"port {self.port}",
            f"bind {self.host}",
            "protected-mode no",
            f"dir {self.home}",
            f"sentinel monitor {name} {master.host} {master.port} {self._quorum}",
            f"sentinel down-after-milliseconds {name} {self._down_ms}",
            f"sentinel failover-timeout {name} {self._failover_ms}",
            f"sentinel parallel-syncs {name} 2",
        ]
        self._config.write_text("\n".join(lines) + "\n")

    def command(self) -> Sequence[str]:
        return [str(self._master.binary), str(self._config), "--sentinel"]

    def ask(self, *words: object) -> Any:
        """Send a command, on a connection of its own, and return the reply."""
        return _asked(self, words)

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self.ask("PING"))
        except redis.RedisError:
            return False

    def version(self) -> str:
        """Return the version that it says it is."""
        return str(self.ask("INFO", "server")["redis_version"])

    def says(self) -> tuple[str, int]:
        """Return where it says that the master is."""
        host, port = self.ask("SENTINEL", "get-master-addr-by-name", "mymaster")
        return host, int(port)


def _asked(server: Server, words: Sequence[object]) -> Any:
    once = Retry(NoBackoff(), 0)
    options: dict[str, Any] = {"socket_timeout": ANSWER_S, "decode_responses": True, "retry": once}
    with redis.Redis(server.host, server.port, **options) as client:
        return client.execute_command(*words)


def becomes(what: str, check: Callable[[], object], within_s: float = SOON_S) -> None:
    """Wait until ``check`` is true; AssertionError if it does not become so."""
    assert eventually(check, within_s), f"within {within_s:g} s {what}"


def found(what: str, look: Callable[[], T | None], within_s: float = SOON_S) -> T:
    """Wait until ``look`` finds something, and return that; AssertionError if it does not."""
    seen: list[T] = []

    def finds() -> bool:
        one = look()
        if one is not None:
            seen.append(one)
        return one is not None

    becomes(what, finds, within_s)
    return seen[0]
