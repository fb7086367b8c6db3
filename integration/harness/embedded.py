"""A ZooKeeper that can be told what no client can ask: to end a session, move it, count from here."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace

from integration.fleet.building import embedded_classes
from integration.harness.finding import find_zookeeper
from integration.harness.throwaway import free_ports
from integration.harness.zookeeper import ZooKeeper

__all__ = ["EmbeddedZooKeeper"]

LAST = 2**31 - 1


class EmbeddedZooKeeper(ZooKeeper):
    """One ZooKeeper in a program of ours (``java/Embedded.java``), with a port where it is told.

    Raises:
        ServerUnavailable: There is no ZooKeeper, or no JDK to compile that program.
    """

    def __init__(self, label: str = "embedded-zookeeper", *, tick_ms: int = 500) -> None:
        java = find_zookeeper()
        classes = embedded_classes()
        super().__init__(
            label, replace(java, classpath=f"{java.classpath}{os.pathsep}{classes}"), tick_ms=tick_ms
        )
        (self._control,) = free_ports(1)

    def program(self) -> Sequence[str]:
        return ["Embedded", str(self.home / "zoo.cfg"), str(self._control)]

    def expire(self, session: str) -> None:
        """End a session (in hexadecimal), as if its time were up."""
        self._tell("expire", session)

    def move(self, session: str) -> None:
        """Have a session belong to another server: what comes over its connections here is refused."""
        self._tell("move", session)

    def move_back(self, session: str) -> None:
        """Have it belong to this server again."""
        self._tell("return", session)

    def count_from(self, path: str, number: int) -> None:
        """Have a node give ``number`` to its next sequential child."""
        self._tell("cversion", path, str(number))

    def _tell(self, *words: str) -> None:
        with socket.create_connection((self.host, self._control), 10) as connection:
            connection.sendall((" ".join(words) + "\n").encode())
            answer = connection.makefile().readline().strip()
        assert answer == "ok", f"{' '.join(words)}: {answer}"
