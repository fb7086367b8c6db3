"""A Memcached server, which keeps nothing over a restart."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from integration.harness.process import Server, eventually
from integration.harness.throwaway import free_ports

__all__ = ["Memcached"]


class Memcached(Server):
    """One Memcached on loopback.

    Args:
        label: In errors.
        binary: The program.
        words: Its options, besides the address.
    """

    scheme = "memcached"

    def __init__(self, label: str, binary: Path, words: Sequence[str]) -> None:
        super().__init__(label, *free_ports(1))
        self.binary = binary
        self.words = words

    def command(self) -> Sequence[str]:
        user = ("-u", "root") if os.getuid() == 0 else ()
        where = ("-l", self.host, "-p", str(self.port), "-U", "0")
        return [str(self.binary), *where, *user, *self.words]

    def healthy(self) -> bool:
        try:
            return bool(self.stats())
        except OSError:
            return False

    def version(self) -> str:
        return self.stats()["version"]

    def stats(self) -> dict[str, str]:
        """Return what the server says of itself."""
        lines = self.ask("stats").removesuffix("END\r\n").splitlines()
        return {name: said for _, name, said in (line.split(" ", 2) for line in lines)}

    def ask(self, *lines: str) -> str:
        """Return the answer to one command, with the data that follows it, as text."""
        return self._asked([*lines, "mn"], "MN\r\n")

    def _asked(self, lines: Sequence[str], end: str) -> str:
        with socket.create_connection((self.host, self.port), 10) as plain:
            plain.sendall("".join(f"{line}\r\n" for line in lines).encode())
            answer = ""
            while not answer.endswith(end):
                more = plain.recv(65_536)
                if not more:
                    raise ConnectionResetError("the server closed the connection")
                answer += more.decode()
        return answer.removesuffix(end)

    def get(self, key: str) -> str:
        """Return what an item holds; empty if there is none."""
        lines = self.ask(f"get {key}").split("\r\n")
        return lines[1] if lines[0].startswith("VALUE") else ""

    def add(self, key: str, value: str, expire_s: int = 0) -> bool:
        """Add an item, as other programs lock; whether there was none."""
        return self.ask(f"add {key} 0 {expire_s} {len(value)}", value) == "STORED\r\n"

    def delete(self, key: str) -> bool:
        """Delete an item, whatever it holds; whether there was one."""
        return self.ask(f"delete {key}") == "DELETED\r\n"

    def keys(self, prefix: str) -> list[str]:
        """Return the keys with a prefix, of the items that are there."""
        lines = self._asked(["lru_crawler metadump hash"], "END\r\n").splitlines()
        found = [unquote(line.split()[0].removeprefix("key=")) for line in lines if line.startswith("key=")]
        return sorted(key for key in found if key.startswith(prefix) and self.get(key))

    def wait_granting(self, grace_s: float = 2.0) -> None:
        """Wait until clients with this `restart_grace` are granted what they ask for."""
        assert eventually(lambda: int(self.stats()["uptime"]) > grace_s + 3, grace_s + 30), (
            "it should stay up"
        )
