"""Signals at chosen moments: at each place where Python would hear of one, one after the other.

Python hears of a signal where one of its functions begins, and where a function of C has returned. A
profile function is called at just these places, in the thread that it was set in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import recipes

__all__ = ["Handled", "Strike", "StrikeAtTheEnd", "StrikeWithin"]

PACKAGE = str(Path(recipes.__file__).parent)


class Struck:
    """Strikes the n-th time that this thread would hear of a signal, in code of the package."""

    within: tuple[str, ...] = (PACKAGE,)
    """How the paths begin of the code that it strikes."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def __enter__(self) -> Self:
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(self.within):
            return  # the gaps of other packages are theirs
        if not self.counts(frame, event):
            return
        self.left -= 1
        if not self.left:
            sys.setprofile(None)
            code = frame.f_code
            self.where = f"{event} of {code.co_name} in {code.co_filename}:{frame.f_lineno}"
            self.strike()

    def counts(self, frame: FrameType, event: str) -> bool:
        """Whether it could strike here."""
        del frame, event
        return True

    def strike(self) -> None:
        """Do what the signal's handler does."""
        raise NotImplementedError


class Strike(Struck):
    """Raises KeyboardInterrupt; the result of what has just returned is lost then."""

    def counts(self, frame: FrameType, event: str) -> bool:
        """Not as a call of the test begins: as if it had struck before. The end of a block counts."""
        caller = frame.f_back
        begins = event == "call" and caller is not None
        if not begins or caller.f_code.co_filename.startswith(PACKAGE):  # type: ignore[union-attr]
            return True
        return frame.f_code.co_name == "__exit__"

    def strike(self) -> None:
        """Interrupt."""
        raise KeyboardInterrupt


class StrikeAtTheEnd(Strike):
    """Raises KeyboardInterrupt as the end of a block begins, and nowhere else."""

    def __init__(self) -> None:
        super().__init__(1)

    def counts(self, frame: FrameType, event: str) -> bool:
        """Only there."""
        caller = frame.f_back
        ends = event == "call" and frame.f_code.co_name == "__exit__" and caller is not None
        return ends and not caller.f_code.co_filename.startswith(PACKAGE)  # type: ignore[union-attr]


class StrikeWithin(Strike):
    """Raises KeyboardInterrupt in one of these functions: as often, however long the rest takes."""

    def __init__(self, at: int, *names: str) -> None:
        super().__init__(at)
        self.names = names

    def counts(self, frame: FrameType, event: str) -> bool:
        """Only there."""
        return frame.f_code.co_name in self.names and super().counts(frame, event)


class Handled(Struck):
    """Calls a handler, and goes on."""

    def __init__(self, at: int, handler: Callable[[], object]) -> None:
        super().__init__(at)
        self.handler = handler

    def strike(self) -> None:
        """Call the handler."""
        self.handler()
