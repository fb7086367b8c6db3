"""A network for the members of a cluster, in which any two of them can be cut off from each other.

::

    member 1 --+
    member 2 -- hub -- here
    member 3 --+

Each member lives in a network namespace of its own, and so does the hub. A rule in the hub drops what
goes from one to another, in silence: connections stay open, and nobody is told. Needs root, and ``ip``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from typing import Self

from integration.harness.process import ServerUnavailable

__all__ = ["Hub"]

HERE = 0
_numbers = itertools.count()


class Hub:
    """A context manager makes it, with as many places as asked for, and takes it away."""

    def __init__(self, size: int) -> None:
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise ServerUnavailable("network namespaces need root, and `ip` (Debian: iproute2)")
        number = os.getpid() * 4 + next(_numbers) % 4
        self.size = size
        self._name = f"rch{number}"
        self._net = f"10.{150 + number // 256 % 50}.{number % 256}"
        self._cuts: list[tuple[str, str]] = []

    def address(self, place: int) -> str:
        """Return the address of a member, counted from 1."""
        return f"{self._net}.{4 * place + 2}"

    def namespace(self, place: int) -> str:
        """Return the namespace of a member."""
        return f"{self._name}-{place}"

    def cut(self, one: int, other: int) -> None:
        """Drop all between two places, both ways, until ``heal``."""
        ends = self.address(one), self.address(other)
        for source, target in (ends, ends[::-1]):
            self._in_hub("rule", "add", "from", source, "to", target, "blackhole")
            self._cuts.append((source, target))

    def heal(self) -> None:
        """Let everything pass again; what was dropped is gone."""
        while self._cuts:
            source, target = self._cuts.pop()
            self._in_hub("rule", "del", "from", source, "to", target, "blackhole")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.__exit__)
            self._make()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for name in (self._name, *map(self.namespace, range(1, self.size + 1))):  # the links go with them
            with contextlib.suppress(ServerUnavailable):
                _run("ip", "netns", "del", name)

    def _make(self) -> None:
        _run("ip", "netns", "add", self._name)
        for place in range(self.size + 1):
            self._join(place)
        _run("ip", "route", "add", f"{self._net}.0/24", "via", self._gate(HERE))
        _run("ip", "netns", "exec", self._name, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")

    def _join(self, place: int) -> None:
        """Lay a cable between a place and the hub."""
        inner, outer = f"{self._name}i{place}", f"o{place}"
        where = ["-n", self.namespace(place)] if place else []
        if place:
            _run("ip", "netns", "add", self.namespace(place))
            _run("ip", *where, "link", "set", "lo", "up")
        home = ["netns", self.namespace(place)] if place else []
        far = ["peer", "name", outer, "netns", self._name]
        _run("ip", "link", "add", inner, *home, "type", "veth", *far)
        _run("ip", *where, "addr", "add", f"{self.address(place)}/30", "dev", inner)
        _run("ip", *where, "link", "set", inner, "up")
        self._in_hub("addr", "add", f"{self._gate(place)}/30", "dev", outer)
        self._in_hub("link", "set", outer, "up")
        if place:
            _run("ip", *where, "route", "add", "default", "via", self._gate(place))

    def _gate(self, place: int) -> str:
        return f"{self._net}.{4 * place + 1}"

    def _in_hub(self, *words: str) -> None:
        _run("ip", "-n", self._name, *words)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise ServerUnavailable(f"`{' '.join(command)}`: {done.stderr.strip()}")
