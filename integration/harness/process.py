"""A server process of ours: started, stopped, paused and killed by the test, and never left behind."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from integration.harness.clock import Clock
from integration.harness.family import put_off_with_children
from integration.harness.throwaway import ServerUnavailable, memory_directory, tethered, wait_ready

__all__ = ["Server", "ServerUnavailable", "alive", "eventually", "forget_ended", "lateness_of_all"]

_starter = ThreadPoolExecutor(1, "server-starter")
"""Every server is started from this one thread: a tethered process dies with the *thread* that made it."""

_alive: weakref.WeakSet[Server] = weakref.WeakSet()


def alive() -> list[Server]:
    """Return the servers that this process has running, each a process of its own."""
    return [one for one in list(_alive) if one._process is not None and one.running]


_ended: dict[str, dict[str, float]] = {}
"""How late each thread was of the servers that were ended, when they were."""


def lateness_of_all() -> dict[str, dict[str, float]]:
    """Return how late each thread was so far, by the server; of one that was ended, until then."""
    seen = {who: dict(threads) for who, threads in list(_ended.items())}
    for server in alive():
        seen.setdefault(server.who, {}).update(put_off_with_children(server.pid))
    return seen


def forget_ended() -> None:
    """Forget the servers that were ended so far."""
    _ended.clear()


def eventually(check: Callable[[], object], within_s: float, *, every_s: float = 0.05) -> bool:
    """Ask ``check`` until it is true, for ``within_s`` seconds at most; whether it became true.

    For state that only a server knows and nobody tells: everything else has an event to wait on.
    """
    policy = Retrying(
        stop=stop_after_delay(within_s), wait=wait_fixed(every_s), retry=retry_if_result(lambda yes: not yes)
    )
    try:
        policy(check)
    except RetryError:
        return False
    return True


class Server(ABC):
    """One server process on loopback ports, with its data in memory if there is room.

    Ports and data stay the same from the first ``start`` to ``close``, through any
    number of stops, kills and restarts. A context manager starts and closes it.
    """

    scheme: str
    """The scheme of its URLs."""

    ends_by: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal that asks it to end."""

    def __init__(self, label: str, port: int, *, folder: Path | None = None) -> None:
        self.label = label
        self.host = "127.0.0.1"
        self.namespace: str | None = None
        self.port = port
        self.home = Path(tempfile.mkdtemp(prefix=f"recipes-{label}-", dir=folder or memory_directory()))
        self.log_path = self.home / "log"
        self.clock: Clock | None = None
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        _alive.add(self)

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that runs the server."""

    @abstractmethod
    def healthy(self) -> bool:
        """Whether the server answers and is ready to serve; bounded."""

    @abstractmethod
    def version(self) -> str:
        """Ask the running server for its version."""

    options: Mapping[str, Any] = MappingProxyType({})
    """What a client has to be told besides the URL."""

    def url(self, prefix: str = "") -> str:
        """Return the URL by which a client connects and works under ``prefix``."""
        return url_of(self.scheme, [self.address], prefix)

    @property
    def kind(self) -> str:
        """Which kind of store it is, whatever it is asked in."""
        return self.scheme.partition("+")[0]

    @property
    def address(self) -> str:
        """Return ``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def who(self) -> str:
        """Return which of all servers it is."""
        return f"{self.label} at {self.port}"

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None, f"{self.label} should have been started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server, if it is not running, and wait until it serves."""
        self.spawn()
        self.wait_ready()
        return self

    def spawn(self) -> None:
        """Start the server and do not wait: the members of a cluster wait for each other."""
        if self.running:
            return
        self.prepare()
        inside = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        with self.log_path.open("ab") as log:
            self._process = _starter.submit(
                subprocess.Popen,
                tethered([*inside, *(self.clock.words if self.clock else ()), *self.command()]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop their servers
            ).result()

    def prepare(self) -> None:  # noqa: B027 - most servers need nothing
        """Write whatever the server reads when it starts."""

    def wait_ready(self, within_s: float = 90) -> None:
        """Wait until the server serves; ServerUnavailable, with its log, if it does not."""
        assert self._process is not None, f"{self.label} should have been started"
        wait_ready(self._process, self.healthy, log=self.log_path, within_s=within_s)

    def stop(self, within_s: float = 30) -> None:
        """Ask the server to end and wait for it; kill it if it does not."""
        if self._process is None:
            return
        self._note_lateness()
        self._signal(self.ends_by)
        self.resume()  # a paused process hears nothing but SIGKILL
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the server at once (SIGKILL), paused or not."""
        if self._process is not None:
            self._note_lateness()
            self._signal(signal.SIGKILL)
            self._process.wait()

    def set_clock(self, ahead_s: int) -> None:
        """Have its wall clock be so many seconds ahead of this machine's; say so once before its start."""
        if self.clock is None:
            assert not self.running, f"{self.label} should be given a clock before it starts"
            self.clock = Clock(self.home)
        self.clock.set(ahead_s)

    def pause(self) -> None:
        """Stop the process in its tracks (SIGSTOP): its sockets stay open and silent."""
        self._signal(signal.SIGSTOP)
        # The signal is on its way; only when every thread has stopped does the parent hear of it.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def restart(self, *, wipe: bool = False) -> Self:
        """Stop the server if it runs and start it on the same ports, with the same data unless ``wipe``."""
        self.stop()
        if wipe:
            shutil.rmtree(self.home)
            self.home.mkdir()
        return self.start()

    def close(self) -> None:
        """Kill the server and remove its data; only the process that made it does, not a fork of that."""
        if os.getpid() != self._owner:
            return
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)
        if self.clock is not None:
            self.clock.close()
        _alive.discard(self)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note_lateness(self) -> None:
        """Keep for how long it did not run, which the kernel tells of running processes alone."""
        if self.running:
            _ended.setdefault(self.who, {}).update(put_off_with_children(self.pid))

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # which does nothing once the process was waited for


_PLACES = {
    "redis": ("", "0/"),
    "rediss": ("", "0/"),
    "postgresql": ("app:app@", "app/"),
    "mysql": ("app:app@", "app/"),
}
"""By the scheme: who connects, and to which database."""


def url_of(scheme: str, addresses: Sequence[str], prefix: str) -> str:
    """Return the URL of one server or of the members of a cluster, with user and database."""
    user, database = _PLACES.get(scheme, ("", ""))
    return f"{scheme}://{user}{','.join(addresses)}/{f'{database}{prefix}'.strip('/')}"


@atexit.register
def _close_all() -> None:
    for server in list(_alive):
        server.close()
