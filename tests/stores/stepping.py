"""Drives a store's protocol by hand: one reply for each request."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from recipes._contract.protocol import RequestContext
from recipes._contract.wakeups import Event


class Mailbox:
    """Where a protocol has events sent; nobody reads it."""

    def post(self, event: Event) -> None:
        raise AssertionError("a protocol only passes the mailbox on")


class Box:
    """Where events are kept."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def post(self, event: Event) -> None:
        self.events.append(event)

    def clear(self) -> None:
        self.events.clear()


MAILBOX = Mailbox()
CONTEXT = RequestContext(MAILBOX)
AGAIN = RequestContext(MAILBOX, again=True)


class Asked(list[Any]):
    """The requests of an operation; ``result`` is what it came to."""

    result: Any = None


def feed(steps: Generator[Any, Any, Any], *replies: Any) -> Asked:
    """Send these replies (an exception is thrown in), all of them; returns what was asked."""
    asked = Asked()
    left = list(replies)
    try:
        request = steps.send(None)
        while True:
            asked.append(request)
            assert left, f"no reply is left for {request!r}"
            reply = left.pop(0)
            request = steps.throw(reply) if isinstance(reply, BaseException) else steps.send(reply)
    except StopIteration as stop:
        asked.result = stop.value
    assert not left, f"nobody asked for {left!r}"
    return asked
