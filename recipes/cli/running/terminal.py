"""The terminal that ``recipes run`` was started on: lent to the command, and taken back as it was."""

from __future__ import annotations

import os
import signal
import sys
import termios
from contextlib import suppress
from typing import Self

__all__ = ["Terminal"]


class Terminal:
    """The controlling terminal, if there is one.

    The command is a process group of its own, and only the group in the foreground may read the
    keys. It gets there at once if standard input and output are the terminal, and otherwise, as in
    ``recipes run ... | less``, when it first reads.
    """

    def __init__(self) -> None:
        self._file = -1
        self._settings: list[object] = []

    def __enter__(self) -> Self:
        with suppress(OSError, termios.error):
            self._file = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
            self._settings = termios.tcgetattr(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def there(self) -> bool:
        """Whether there is one."""
        return self._file >= 0

    @property
    def mine(self) -> bool:
        """Whether this process is in the foreground: the keys are for it to read, or to lend."""
        try:
            return self.there and os.tcgetpgrp(self._file) == os.getpgrp()
        except OSError:
            return False

    @property
    def wanted(self) -> bool:
        """Whether a command that is started now shall have it at once."""
        return self.mine and os.isatty(0) and os.isatty(1)

    def take_back(self) -> None:
        """Be in the foreground again, with the terminal set as it was before it was lent."""
        if not self.there:
            return
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with suppress(OSError, termios.error):
                os.tcsetpgrp(self._file, os.getpgrp())
                termios.tcsetattr(self._file, termios.TCSADRAIN, self._settings)  # type: ignore[arg-type]
        finally:
            signal.signal(signal.SIGTTOU, before)

    def stop_with_the_job(self) -> None:
        """Stop the whole job, as the key would have, had the terminal not been lent; returns when it goes on.

        It goes on at once where no shell could continue it: the kernel stops no orphaned group.
        """
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            if sys.stderr is not None:  # None: it was closed
                with suppress(OSError):
                    sys.stderr.flush()
            os.killpg(os.getpgrp(), signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, before)
