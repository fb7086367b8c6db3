"""Signals at chosen moments: at each place where Python would hear of one, one after the other.

Python hears of a signal where one of its functions begins, and where a function of C has returned. A
profile function is called at just these places, in the thread that it was set in. It also hears of one
where a loop begins anew, and where a class or another object has been called: a trace function sees these,
between two instructions.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import pytest

import recipes

__all__ = ["EVERYWHERE", "Handled", "Strike", "StrikeAnywhere", "StrikeAtTheEnd", "StrikeWithin"]

PACKAGE = str(Path(recipes.__file__).parent)
EVERYWHERE = (pytest.mark.long, pytest.mark.timeout(3600))
"""The marks of a test that strikes at every place: there are many."""


class Struck:
    """Strikes the n-th time that this thread would hear of a signal, in code of the package."""

    within: tuple[str, ...] = (PACKAGE,)
    """How the paths begin of the code that it strikes."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""
        self._profile = self._hear  # kept: CPython 3.11 may call it once more after

    def __enter__(self) -> Self:
        sys.setprofile(self._profile)
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


class StrikeAnywhere(Strike):
    """Raises KeyboardInterrupt at the n-th of all places, those between two instructions too."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self._trace, self._between = self._begin, self._look  # kept, as the profile function
        self._before: Any = None
        self._last: dict[FrameType, int] = {}
        self._heard: set[FrameType] = set()

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        sys.settrace(self._before)
        self._last.clear()  # or what these frames had would live as long as this
        self._heard.clear()

    def _hear(self, frame: FrameType, event: str, what: Any) -> None:
        if event in ("c_call", "c_return"):
            self._heard.add(frame)
        super()._hear(frame, event, what)

    def _begin(self, frame: FrameType, event: str, _: Any) -> Any:
        """Note that a call runs code of Python; see the instructions of the package's code."""
        caller = frame.f_back
        if caller is not None and frame.f_code.co_name not in CALLED_BY_C:
            self._heard.add(caller)
        if event != "call" or not frame.f_code.co_filename.startswith(self.within):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._between

    def _look(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event != "opcode":
            return self._between
        now, last = frame.f_lasti, self._last.get(frame)
        self._last[frame] = now
        alone = frame not in self._heard
        self._heard.discard(frame)
        if last is not None and self._hears_after(frame.f_code, last, now, alone):
            self.left -= 1
            if not self.left:
                sys.setprofile(None)
                sys.settrace(None)
                code = frame.f_code
                self.where = f"{now} of {code.co_name} in {code.co_filename}:{frame.f_lineno}"
                self.strike()
        return self._between

    @staticmethod
    def _hears_after(code: CodeType, last: int, now: int, alone: bool) -> bool:
        """Whether Python hears of a signal as an instruction ends, and what raises there is handled alike."""
        name = dis.opname[code.co_code[last]]
        called = name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW") and alone
        again = "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name and now < last
        return (called or again) and handler(code, last) == handler(code, now)


CALLED_BY_C = ("__init__", "__new__", "__call__", "__post_init__")
"""Functions that a class or an object calls for its caller: Python hears of signals as that call ends."""


@cache
def _handlers(code: CodeType) -> list[Any]:
    return dis._parse_exception_table(code)  # type: ignore[attr-defined,no-any-return] # there is no other way


def handler(code: CodeType, at: int) -> int | None:
    """Return where code goes on if an instruction raises."""
    return next((one.target for one in _handlers(code) if one.start <= at < one.end), None)


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
