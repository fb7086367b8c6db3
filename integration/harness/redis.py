"""A Redis server."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path

from integration.harness.process import Server
from integration.harness.throwaway import free_ports

__all__ = ["Redis"]


class Redis(Server):
    """One Redis on loopback, which keeps nothing on a disk."""

    scheme = "redis"

    def __init__(self, label: str, binary: Path) -> None:
        super().__init__(label, *free_ports(1))
        self.binary = binary

    def command(self) -> Sequence[str]:
        settings = {"bind": self.host, "port": str(self.port), "save": "", "appendonly": "no"}
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return [str(self.binary), *options, "--dir", str(self.home)]

    def healthy(self) -> bool:
        try:
            return self._ask("PING") == "+PONG"
        except OSError:
            return False

    def version(self) -> str:
        found = re.search(r"redis_version:(\S+)", self._ask("INFO server"))
        assert found is not None, "INFO should tell the version"
        return found[1]

    def url(self, prefix: str = "0") -> str:
        return super().url(prefix)

    def _ask(self, command: str) -> str:
        with socket.create_connection((self.host, self.port), 1) as connection:
            connection.sendall(f"{command}\r\n".encode())
            return connection.recv(65536).decode().strip()
