"""What breaks one system call of a process: the library that is preloaded, and what tells it which."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import os
import shutil
import signal
import ssl
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from integration.harness.throwaway import ServerUnavailable

__all__ = ["FAULTS", "Breaker", "built", "certificates_read_once"]

FAULTS = (
    "none",
    "short",  # one byte is read or written, of several
    "interrupted",  # EINTR
    "reset",  # ECONNRESET or ECONNREFUSED before anything is sent or read, and the connection is gone
    "lost",  # what was sent arrives, what comes back is lost, and the connection is gone
    "full",  # ENOSPC
    "disk",  # EIO
    "descriptors",  # EMFILE
    "stop",  # SIGSTOP; another process continues it
    "fork",  # another thread forks, and the child uses what it has inherited
)
"""In the order of breaker.c."""


def built(folder: Path) -> Path:
    """Compile the library into a folder; ServerUnavailable without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ServerUnavailable("what breaks system calls needs a C compiler (Debian: gcc)")
    library = folder / "breaker.so"
    source = Path(__file__).with_name("breaker.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=60)
    return library


@contextlib.contextmanager
def certificates_read_once() -> Iterator[None]:
    """Have drivers share what the system trusts: PyMySQL reads it for each connection, which takes 15 ms."""
    once = functools.cache(ssl.create_default_context)
    with mock.patch.object(ssl, "create_default_context", once):
        yield


class Breaker:
    """Tells the library, which is preloaded, which system call of this process to break.

    Args:
        trace: A file to write to where the thread was whose call is broken.
        forked: What a child does that is forked at a system call; returns what is wrong, or "".
    """

    def __init__(self, trace: Path, forked: Callable[[], str]) -> None:
        self._library = ctypes.CDLL(None)
        self._library.breaker_arm.argtypes = (ctypes.c_int, ctypes.c_long)
        self._library.breaker_counted.restype = ctypes.c_long
        self._library.breaker_where.restype = ctypes.c_char_p
        for name in ("breaker_stopped_at", "breaker_went_on_at"):
            getattr(self._library, name).restype = ctypes.c_double
        self._trace = trace.open("w+")
        faulthandler.register(signal.SIGUSR2, self._trace, all_threads=False)
        self._forked = forked
        self._ask, self._done = os.pipe(), os.pipe()
        self._library.breaker_pipes(self._ask[1], self._done[0])
        self._said: list[str] = []
        self._thread = threading.Thread(target=self._fork, name="forks", daemon=True)

    def arm(self, fault: str, nth: int) -> None:
        """Break the n-th of the calls, from now on, that this fault can happen to."""
        if fault == "fork":
            self._thread.start()
        self._library.breaker_arm(FAULTS.index(fault), nth)

    def disarm(self) -> None:
        """Break nothing more; wait for the child that was forked."""
        self._library.breaker_disarm()
        if self._thread.is_alive():
            os.write(self._ask[1], b"q")
            self._thread.join()

    @contextlib.contextmanager
    def exempt(self) -> Iterator[None]:
        """Neither count nor break what this thread calls within the block."""
        self._library.breaker_exempt(1)
        try:
            yield
        finally:
            self._library.breaker_exempt(0)

    @property
    def counted(self) -> dict[str, int]:
        """How many calls each fault could have happened to."""
        return {fault: self._library.breaker_counted(number) for number, fault in enumerate(FAULTS)}

    @property
    def where(self) -> str:
        """Which call was broken, and where its thread was; "" if none was."""
        self._trace.seek(0)
        call = self._library.breaker_where().decode()
        return f"{call}\n{self._trace.read()}" if call else ""

    @property
    def stopped(self) -> tuple[float, float]:
        """From when to when the process was stopped."""
        return self._library.breaker_stopped_at(), self._library.breaker_went_on_at()

    @property
    def said(self) -> list[str]:
        """What is wrong with the child that was forked."""
        return self._said

    def _fork(self) -> None:
        self._library.breaker_exempt(1)
        while os.read(self._ask[0], 1) == b"f":
            theirs, mine = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: there are threads
                child = os.fork()
            if not child:
                self._library.breaker_disarm()
                os.write(mine, self._forked().encode()[:4000])
                os._exit(0)
            os.write(self._done[1], b"d")
            os.close(mine)
            if said := os.read(theirs, 4000).decode():
                self._said.append(said)
            os.close(theirs)
            os.waitpid(child, 0)
