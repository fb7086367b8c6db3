"""ZooKeeper servers, and what tests ask them without our package."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from integration.harness.cluster import Cluster
from integration.harness.hub import Hub
from integration.harness.process import Server
from integration.harness.throwaway import free_ports

__all__ = ["Java", "ZooKeeper", "ZooKeeperCluster"]


@dataclass(frozen=True)
class Java:
    """What runs ZooKeeper: a Java runtime and the class path with ZooKeeper's jars."""

    binary: str
    classpath: str


class ZooKeeper(Server):
    """One ZooKeeper; sessions from two ticks to a minute."""

    scheme = "zookeeper"
    kazoo_options: Mapping[str, Any] = MappingProxyType({})
    """What a plain kazoo client has to be told."""

    def __init__(self, label: str, java: Java, *, tick_ms: int = 500, jvm: Sequence[str] = ()) -> None:
        port, self.peer_port, self.election_port = free_ports(3)
        super().__init__(label, port)
        self.java = java
        self.tick_ms = tick_ms
        self.sync_limit = 10
        self.number = 1
        self.ensemble: list[str] = []
        self._jvm = list(jvm)

    def prepare(self) -> None:
        data = self.home / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(self.number))
        settings = {
            "tickTime": self.tick_ms,
            "minSessionTimeout": 2 * self.tick_ms,
            "maxSessionTimeout": 60_000,
            "dataDir": data,
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "initLimit": 20,
            "syncLimit": self.sync_limit,
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        (self.home / "zoo.cfg").write_text("\n".join([*lines, *self.ensemble, ""]))

    def command(self) -> Sequence[str]:
        return [
            self.java.binary,
            "-Xmx256m",
            "-XX:+UseSerialGC",  # on two cores, fewer threads and a quicker start count for more
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no",
            "-Dzookeeper.preAllocSize=1024",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *self._jvm,
            "-cp",
            self.java.classpath,
            *self.program(),
        ]

    def program(self) -> Sequence[str]:
        """Return what Java runs: the main class, and its arguments."""
        return ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.home / "zoo.cfg")]

    def healthy(self) -> bool:
        try:
            said = self.ask("srvr", timeout_s=0.5)  # a server that is just starting may never answer
            return bool(re.search(r"^Mode: (standalone|leader|follower)", said, re.MULTILINE))
        except OSError:
            return False

    def version(self) -> str:
        return self.ask("srvr").partition("Zookeeper version: ")[2].partition("-")[0]

    def ask(self, word: str, timeout_s: float = 5) -> str:
        """Send a four-letter word and return the answer: ``srvr``, ``cons``, ``dump``, ``wchp`` and so on."""
        with socket.create_connection((self.host, self.port), timeout_s) as connection:
            connection.sendall(word.encode())
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts).decode()

    def sessions(self) -> set[str]:
        """Return the id of every live session, as ``0x`` and hexadecimal digits."""
        alive = self.ask("dump").partition("Sessions with Ephemerals")[0]
        return set(re.findall(r"^\s*(0x[0-9a-f]+)", alive, re.MULTILINE))

    def watches(self) -> int:
        """Return how many watches are set on the server."""
        match = re.search(r"^Total watches:(\d+)", self.ask("wchs"), re.MULTILINE)
        assert match is not None, "wchs should end with a total"
        return int(match[1])


class ZooKeeperCluster(Cluster[ZooKeeper]):
    """Three ZooKeeper servers on loopback, or on a hub."""

    def __init__(
        self, label: str, java: Java, *, size: int = 3, tick_ms: int = 500, hub: Hub | None = None
    ) -> None:
        members = [ZooKeeper(f"{label}-n{n}", java, tick_ms=tick_ms) for n in range(1, size + 1)]
        super().__init__(members, hub)
        lines = [
            f"server.{number}={one.host}:{one.peer_port}:{one.election_port}"
            for number, one in enumerate(self.members, 1)
        ]
        for number, member in enumerate(self.members, 1):
            member.number = number
            member.ensemble = lines

    def leads(self, member: ZooKeeper) -> bool:
        return "Mode: leader" in member.ask("srvr", timeout_s=1)
