"""The two things that a driver can do for a program: ask, and receive."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from recipes._contract.connection import Request
from recipes._record import record

__all__ = ["Effect", "Effects", "Receive"]

T = TypeVar("T")


@record
class Receive:
    """Wait for an event in the call's mailbox, at most so many seconds; the result may be None."""

    at_most_s: float | None


Effect = Request[Any] | Receive
Effects = Generator[Effect, Any, T]
