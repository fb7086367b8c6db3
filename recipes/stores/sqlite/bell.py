"""How one process tells another that a contender has gone: a datagram to the socket of its session.

It is a hint, and may be lost: whoever waits also looks by itself, every `Bell.tick_s`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from recipes.stores.sqlite.lifeline import Folder

__all__ = ["Bell"]

TICK_S = 0.4
DEAF_TICK_S = 0.01
LONGEST_ADDRESS = 100
LONGEST_TOLD = 32_000
OVERHEARD = 8
"""So many datagrams at once, and there may have been more than a socket keeps."""


class Bell:
    """The socket of one session, and the way to those of others.

    Args:
        folder: Where sockets are.
        session: Whose it is.
    """

    def __init__(self, folder: Folder, session: str) -> None:
        self._folder = folder
        self._directory = -1
        self.socket: socket.socket | None = None
        try:
            self._open(session)
        except OSError as error:
            self.close()
            folder.warn("waiters here are not told, and look by themselves", error)

    def _open(self, session: str) -> None:
        if len(os.fsencode(self._folder.address_of(session))) > LONGEST_ADDRESS:
            self._directory = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(self._address(session))
        Path(self._folder.address_of(session)).chmod(self._folder.mode)

    def _address(self, session: str) -> str:
        address = self._folder.address_of(session)
        if self._directory < 0:
            return address
        return f"/proc/self/fd/{self._directory}/{Path(address).name}"

    @property
    def tick_s(self) -> float:
        """After how many seconds a waiter looks by itself."""
        return DEAF_TICK_S if self.socket is None else TICK_S

    def ring(self, session: str, gone: Iterable[str] = (), changed: Iterable[str] = ()) -> None:
        """Tell a session of contenders; never waits, and nobody knows whether it was heard."""
        if self.socket is None:
            return
        said = "\n".join([*(f"-{ref}" for ref in gone), *(f"~{ref}" for ref in changed)]).encode()
        try:  # too much to say is said by saying nothing: look
            self.socket.sendto(said if len(said) <= LONGEST_TOLD else b"", self._address(session))
        except OSError:  # its process has died, or does not read: it looks by itself
            pass

    def hear(self) -> tuple[list[str], list[str], bool]:
        """Return who has gone, who has changed, and whether more may have been said."""
        gone: list[str] = []
        changed: list[str] = []
        heard = 0
        doubtful = False
        while self.socket is not None:
            try:
                said = self.socket.recv(2 * LONGEST_TOLD)
            except OSError:
                break
            heard += 1
            doubtful = doubtful or not said or heard >= OVERHEARD
            for word in said.decode("utf-8", "replace").splitlines():
                (changed if word.startswith("~") else gone).append(word[1:])
        return gone, changed, doubtful

    def close(self) -> None:
        """Hear no more."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1
