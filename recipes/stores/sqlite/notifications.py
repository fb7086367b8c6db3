"""How one process tells another that a contender has gone: a datagram to the socket of its session.

It is a hint, and may be lost: a waiter also looks by itself, every `Notifications.tick_s`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from recipes._contract.wakeups import Changed, Gone
from recipes._descriptors import Descriptor
from recipes.stores.sqlite.liveness import Folder

__all__ = ["Notifications"]

TICK_S = 0.4
DEAF_TICK_S = 0.01
LONGEST_ADDRESS = 100
LONGEST_TOLD = 32_000
SIGNS = {Gone: "-", Changed: "~"}
OVERHEARD = 8
"""So many datagrams at once, and there may have been more than a socket keeps."""


class Notifications:
    """The socket of one session, and the way to those of others.

    Args:
        folder: Where sockets are.
        session: Whose it is.
    """

    def __init__(self, folder: Folder, session: str) -> None:
        self._folder = folder
        self._directory: Descriptor | None = None
        self._own: Descriptor | None = None
        self.socket: socket.socket | None = None
        try:
            self._open(session)
        except OSError as error:
            self.close()
            folder.warn("waiters here are not notified, and look by themselves", error)

    def _open(self, session: str) -> None:
        if len(os.fsencode(self._folder.address_of(session))) > LONGEST_ADDRESS:
            directory = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._directory = Descriptor(directory)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._own = Descriptor(self.socket)
        self.socket.setblocking(False)
        self.socket.bind(self._address(session))
        Path(self._folder.address_of(session)).chmod(self._folder.mode)

    def _address(self, session: str) -> str:
        address = self._folder.address_of(session)
        if self._directory is None:
            return address
        return f"/proc/self/fd/{self._directory.number}/{Path(address).name}"

    @property
    def taken(self) -> bool:
        """Whether somebody else has closed what is open here."""
        own, directory = self._own, self._directory
        return (own is not None and own.taken) or (directory is not None and directory.taken)

    @property
    def tick_s(self) -> float:
        """After how many seconds a waiter looks by itself."""
        return DEAF_TICK_S if self.socket is None else TICK_S

    def ring(self, session: str, news: Iterable[Gone | Changed] = ()) -> None:
        """Notify a session of contenders and queues; never waits; it is not known whether it arrived."""
        own = self.socket
        if own is None or self.taken:  # another's socket would say it
            return
        said = "\n".join(f"{SIGNS[type(event)]}{event.ref}" for event in news).encode()
        try:  # too much to say is said by saying nothing: look
            own.sendto(said if len(said) <= LONGEST_TOLD else b"", self._address(session))
        except OSError:  # its process has died, or does not read: it looks by itself
            pass

    def hear(self) -> tuple[list[Gone | Changed], bool]:
        """Return what was said, and whether more may have been."""
        news: list[Gone | Changed] = []
        heard = 0
        doubtful = False
        own = None if self.taken else self.socket  # of another's nothing is read
        while own is not None:
            try:
                said = own.recv(2 * LONGEST_TOLD)
            except OSError:
                break
            heard += 1
            doubtful = doubtful or not said or heard >= OVERHEARD
            words = said.decode("utf-8", "replace").splitlines()
            news += (Changed(word[1:]) if word.startswith("~") else Gone(word[1:]) for word in words)
        return news, doubtful

    def close(self) -> None:
        """Hear no more; never raises."""
        self.socket = None
        for one in (self._own, self._directory):
            if one is not None:
                one.close()
