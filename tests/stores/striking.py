"""Interrupts at every place where Python would hear of a signal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import recipes

__all__ = ["struck"]

WITHIN = (str(Path(recipes.__file__).parent), threading.__file__)


def struck(call: Callable[[], object], at: int, *beside: str) -> bool:
    """Interrupt ``call`` the n-th time that Python would hear of a signal; False if there are not so many.

    Args:
        call: Is interrupted in the code of this package and of `threading`.
        at: The n-th time.
        beside: Where it is interrupted, too: what the paths of files begin with.
    """
    left, hit, within = at, False, (*WITHIN, *beside)

    def hear(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left, hit
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(within):
            return
        left -= 1
        if not left:
            sys.setprofile(None)
            hit = True
            raise KeyboardInterrupt

    try:
        sys.setprofile(hear)
        call()
    except KeyboardInterrupt:
        pass
    except RuntimeError as error:  # a gap of threading's own: it leaves a condition that is not locked yet
        if "release unlocked lock" not in str(error):
            raise
    finally:
        sys.setprofile(None)
    return hit
