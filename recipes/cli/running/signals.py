"""The signals that reach ``recipes run``: while it waits they end it, later they are the command's.

`recipes elect` waits again when its leadership was lost: then they end it as before.

The first one that ends it begins a clean-up, which leaves the queue. Further ones come when somebody is
impatient, or from a supervisor that repeats itself; they do not cut the clean-up off until it has had
its time.
"""

from __future__ import annotations

import signal
import socket
from collections import deque
from types import FrameType
from typing import Any, Self

from recipes._run.clock import boot_time
from recipes.cli.running.guard import KEPT

__all__ = ["CLEAN_UP_S", "Signals", "Struck"]

CLEAN_UP_S = 10.0
"""A client closes within 5 s, and a guard ends within as much."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
ASKING = frozenset(ENDING) - {signal.SIGHUP}
"""Those that ask a command to end; a daemon that gets SIGHUP reads its configuration again."""
OWN = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them for itself; a command expects them as the system has them."""
UNTOUCHED = (signal.SIGTTIN, signal.SIGTTOU, *OWN)
"""Those that the system may act on, or that are ignored; for the command all are as they were."""


class Struck(KeyboardInterrupt):
    """A signal that ends this process came before the command was started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Takes the signals of this process for the length of a block.

    Attributes:
        ignored: What the parent process had it ignore (``nohup``); stays so, here and in
            the command.
        arrived: What came since `collect` was called.
    """

    def __init__(self) -> None:
        known = {number: signal.getsignal(number) for number in KEPT if number not in OWN}
        self.ignored = [int(number) for number, handler in known.items() if handler is signal.SIG_IGN]
        self.arrived: deque[int] = deque()
        self._asked: int | None = None
        self._collects = False
        self._spared_until: float | None = None
        self._before: dict[int, Any] = {}
        self._waker, self._ringer = socket.socketpair()
        for end in (self._waker, self._ringer):
            end.setblocking(False)

    def __enter__(self) -> Self:
        for number in ENDING:
            self._take(number)
        return self

    def __exit__(self, *_: object) -> None:
        if self._collects:
            signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._waker.close()
        self._ringer.close()

    def spare(self) -> None:
        """Let the clean-up come to its end: for `CLEAN_UP_S` from the first call on, no signal interrupts."""
        if self._spared_until is None:
            self._spared_until = boot_time() + CLEAN_UP_S

    def collect(self) -> None:
        """From now on no signal ends this process: each is put into `arrived`."""
        self._collects = True
        signal.set_wakeup_fd(self._ringer.fileno(), warn_on_full_buffer=False)
        for number in KEPT:
            if number not in UNTOUCHED:
                self._take(number)
        self._take(signal.SIGCONT)
        # While the command has the terminal, a message of ours must not stop what renews ("stty tostop").
        self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def let_end(self) -> None:
        """Have the next signal end this process again, as before `collect`: the command has ended.

        Raises:
            Struck: One was passed on that asked the command to end, or was not passed on in time.
        """
        signal.set_wakeup_fd(-1)
        for number in [one for one in self._before if one not in ENDING]:
            signal.signal(number, self._before.pop(number))
        self._collects = False
        late = next((number for number in self.arrived if number in ENDING), self._asked)
        self.arrived.clear()
        if late is not None:
            self.spare()
            raise Struck(late)

    def fileno(self) -> int:
        """Return what to wait on for signals."""
        return self._waker.fileno()

    def ring(self) -> None:
        """Wake what waits; from any thread."""
        try:
            self._ringer.send(b"\0")
        except OSError:  # it is full, or nobody waits any more
            pass

    def heard(self) -> None:
        """Begin to wait anew."""
        try:
            self._waker.recv(4096)
        except BlockingIOError:
            pass

    def _take(self, number: int) -> None:
        if number not in self.ignored and number not in self._before:
            self._before[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._collects:
            self.arrived.append(number)
            self._asked = number if number in ASKING else self._asked
        elif self._spared_until is None or boot_time() >= self._spared_until:
            self.spare()
            raise Struck(number)
