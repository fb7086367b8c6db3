"""Which calls are notified of what."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes.stores._kit.subscriptions import Subscriptions
from recipes.stores._kit.tasks import _Worker


class Box:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def post(self, event: Event) -> None:
        self.events.append(event)


def test_a_mailbox_that_subscribes_while_the_contender_goes_is_notified_of_its_next_news() -> None:
    class Slow(Box):
        """At which the contender goes while it is noted: as another thread, or a signal handler, does it."""

        def __hash__(self) -> int:
            if goes and "x/1" in subscriptions:
                subscriptions.post(Gone(goes.pop()))
            return id(self)

    subscriptions, goes = Subscriptions(), ["x/1"]
    slow = Slow()
    subscriptions.add(slow, "x/1")
    assert goes == []
    assert subscriptions.refs() == ("x/1",)
    assert "x/1" in subscriptions
    assert "x/2" not in subscriptions
    subscriptions.post(Gone("x/1"))
    assert slow.events == [Gone("x/1")]


def test_a_mailbox_that_subscribes_while_another_is_forgotten_is_notified() -> None:
    class Ref(str):
        """At which another subscribes as it is taken out: as another thread does it."""

        __slots__ = ()

        def __hash__(self) -> int:
            if comes and not subscriptions._waiting.get("x/1", True):
                subscriptions.add(comes.pop(), "x/1")
            return str.__hash__(self)

    comes: list[Box] = []
    subscriptions, one, other = Subscriptions(), Box(), Box()
    subscriptions.add(one, Ref("x/1"))
    comes.append(other)
    subscriptions.forget(one)
    subscriptions.post(Gone("x/1"))
    assert comes == []
    assert one.events == []
    assert other.events == [Disturbed()]
    assert not subscriptions


def test_each_watch_notifies_once_and_none_that_was_forgotten() -> None:
    subscriptions, one, other = Subscriptions(), Box(), Box()
    subscriptions.add(one, "x/1")
    subscriptions.add(other, "x/1")
    subscriptions.add(other, "x")
    subscriptions.forget(one)
    subscriptions.post(Gone("x/1"))
    for event in (Gone("x/1"), Gone("x/9")):
        subscriptions.post(event)
    assert (one.events, other.events) == ([], [Gone("x/1")])
    assert subscriptions.refs() == ("x",)
    subscriptions.post(Changed("x"))
    assert other.events[1:] == [Changed("x")]
    assert not subscriptions


def test_to_forget_one_looks_at_what_it_has_subscribed_to() -> None:
    """It looked at all that anybody waited for, at the end of each call: with 10,000 waiters for 1 ms."""

    class Waiting(dict[str, dict[Any, None]]):
        """Nobody goes through all of it."""

        def __iter__(self) -> Any:
            raise AssertionError("all references are looked at")

        items = keys = values = __iter__

    subscriptions, one, other, never = Subscriptions(), Box(), Box(), Box()
    subscriptions._waiting = Waiting()
    for number in range(100):
        subscriptions.add(other, f"x/{number}")
    subscriptions.add(one, "x/7")
    for mailbox in (one, never, other):
        subscriptions.forget(mailbox)
    assert not subscriptions
    assert not any(map(subscriptions.knows, (one, other, never)))


def test_what_one_was_notified_of_is_not_kept_for_it() -> None:
    subscriptions, one = Subscriptions(), Box()
    standing = [f"y/{number}" for number in range(40)]
    for ref in standing:
        subscriptions.add(one, ref)
    for number in range(1000):
        subscriptions.add(one, f"x/{number}")
        subscriptions.post(Gone(f"x/{number}"))
    assert len(subscriptions._of[one]) <= 4 * len(standing)
    subscriptions.forget(one)
    assert not subscriptions


def test_nothing_is_left_of_a_mailbox_that_was_alone() -> None:
    subscriptions, one = Subscriptions(), Box()
    subscriptions.add(one, "x/1")
    subscriptions.forget(one)
    assert not subscriptions


@pytest.mark.parametrize("amid", ["begin", "work"])
def test_what_a_job_subscribes_that_was_forgotten_meanwhile_is_forgotten_behind_it(amid: str) -> None:
    """The call was cancelled as the thread of an asyncio client was at it: its mailbox was kept for good."""
    subscriptions, box, begun, done = Subscriptions(), Box(), threading.Event(), threading.Event()
    session: Any = SimpleNamespace(subscriptions=subscriptions, close=lambda _: done.set(), tick_s=1.0)
    worker = _Worker(session, looks=False)

    def forget(at: str) -> bool:
        if at == amid:
            worker.forget(box)  # as the loop does
            subscriptions.forget(box)
        return True

    def carry_out(command: Any, _: float) -> None:
        forget("work")
        subscriptions.add(command.mailbox, "x/1")
        begun.set()

    session.carry_out = carry_out
    job: Any = SimpleNamespace(
        begin=lambda: forget("begin"),
        command=SimpleNamespace(mailbox=box),
        until=0.0,
        answer=SimpleNamespace(give=lambda *_: None),
        forgotten=False,
    )
    worker.put(job)
    assert begun.wait(20)
    worker.end(SimpleNamespace(create_future=lambda: None, call_soon_threadsafe=lambda *_: None))  # type: ignore[arg-type]
    assert done.wait(20)
    assert not subscriptions.knows(box)
    assert not subscriptions
