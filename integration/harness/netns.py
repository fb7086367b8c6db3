"""A network of its own for a client: its namespace, a router's, and a way to this machine that drops one way.

::

    client -- router -- here

A route of type ``blackhole`` in the router drops all that goes to one of the ends, and tells nobody:
the other direction goes on. Needs root, and ``ip``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from typing import Self

from integration.harness.process import ServerUnavailable

__all__ = ["Network"]

_numbers = itertools.count(os.getpid() * 7)


class Network:
    """A context manager makes it and takes it away.

    Attributes:
        here: The address of this machine, as the client sees it.
        there: The address of the client.
    """

    def __init__(self) -> None:
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise ServerUnavailable("network namespaces need root, and `ip` (Debian: iproute2)")
        number = next(_numbers)
        self._name = f"rcp{number % 100_000}"
        self._client, self._router = f"{self._name}c", f"{self._name}r"
        network = f"10.{200 + number // 256 % 50}.{number % 256}"
        self._net = f"{network}.0/30"
        self.there, self._gate = f"{network}.2", f"{network}.1"
        self.here, self._hop = f"{network}.6", f"{network}.5"

    def command(self, command: list[str]) -> list[str]:
        """Return ``command`` wrapped to run where the client is."""
        return ["ip", "netns", "exec", self._client, *command]

    def drop(self, *, towards: str) -> None:
        """Drop all that goes to "here" or "there", in silence, until ``heal``."""
        address = self.here if towards == "here" else self.there
        _ip("-n", self._router, "route", "add", "blackhole", f"{address}/32")

    def heal(self) -> None:
        """Let everything pass again; what was dropped is gone."""
        for address in (self.here, self.there):
            with contextlib.suppress(ServerUnavailable):
                _ip("-n", self._router, "route", "del", "blackhole", f"{address}/32")

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in (self._client, self._router):  # the links go with them
            with contextlib.suppress(ServerUnavailable):
                _ip("netns", "del", name)

    def _make(self) -> None:
        for name in (self._client, self._router):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        inner, outer = f"{self._name}i", f"{self._name}o"
        _ip(
            "link",
            "add",
            inner,
            "netns",
            self._client,
            "type",
            "veth",
            "peer",
            "name",
            "near",
            "netns",
            self._router,
        )
        _ip("link", "add", outer, "type", "veth", "peer", "name", "far", "netns", self._router)
        for where, device, address in (
            (["-n", self._client], inner, self.there),
            (["-n", self._router], "near", self._gate),
            (["-n", self._router], "far", self._hop),
            ([], outer, self.here),
        ):
            _ip(*where, "addr", "add", f"{address}/30", "dev", device)
            _ip(*where, "link", "set", device, "up")
        _ip("-n", self._client, "route", "add", "default", "via", self._gate)
        _ip("route", "add", self._net, "via", self._hop)
        _run("ip", "netns", "exec", self._router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise ServerUnavailable(f"`{' '.join(command)}`: {done.stderr.strip()}")
