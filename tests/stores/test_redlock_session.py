"""How long the votes of several servers are waited for, with the time in the test's hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from recipes.errors import StoreUnavailable
from recipes.stores._kit.cell import Keep
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.redis.keys import Keys
from recipes.stores.redlock import session
from recipes.stores.redlock.acts import Acts

DOWN = StoreUnavailable("h", "refused")


class Voter:
    """A connection on which the answer arrives at a moment."""

    full = False

    def __init__(self, clock: SimpleNamespace, number: int, at_s: float) -> None:
        self.clock, self.number, self.at_s = clock, number, at_s

    @property
    def owes_s(self) -> float:
        return float(self.clock.now)

    def ask(self, round_: Any) -> Any:
        del round_
        return self.go_on()

    def go_on(self) -> Any:
        return [1] if self.clock.now >= self.at_s else None


def votes_of(
    voters: Any,
    clock: SimpleNamespace,
    patch: pytest.MonkeyPatch,
    *,
    ready: Any,
    connect: Any,
    patience_s: float,
) -> Any:
    """Return how three servers vote on a renewal."""
    patch.setattr(session, "_Voter", Voter)
    patch.setattr(session, "any_ready", ready)
    patch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock.now))
    acts = Acts("redlock://h", Keys("lock:"), 20.0, 3)
    one: Any = session.RedlockSession("h", [("h", 1)] * 3, None, acts, lambda _: None)  # type: ignore[arg-type]
    patch.setattr(one, "_patience_s", patience_s)
    patch.setattr(one, "_connect", connect)
    round_ = next(acts.of(Command(Keep((("x", "s/one"),), 10.0), "s", NOBODY)))
    return one._votes(voters, round_, 5.0, lambda: True)


def test_an_error_is_no_answer_for_which_the_slow_ones_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One server of three is down, and the others answer later than is usual: they are a majority."""
    clock = SimpleNamespace(now=0.0)
    voters: Any = {1: Voter(clock, 101, 0.25), 2: Voter(clock, 102, 0.26)}

    def ready(reading: set[int], writing: list[int], within_s: float) -> set[int]:
        del writing, within_s
        clock.now += 0.01
        return {one.number for one in voters.values() if one.number in reading and one.go_on()}

    def connect(voters: Any, votes: list[Any], deadline: float, wanted: Any) -> None:
        del voters, deadline, wanted
        votes[0] = DOWN

    assert votes_of(voters, clock, monkeypatch, ready=ready, connect=connect, patience_s=0.2) == [
        DOWN,
        [1],
        [1],
    ]


def test_a_server_whose_descriptor_other_code_has_closed_has_no_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)

    class Closed(Voter):
        closed = False

        @property
        def number(self) -> int:
            raise OSError("it is closed")

        @number.setter
        def number(self, number: int) -> None:
            pass

        def close(self) -> None:
            self.closed = True

    taken = Closed(clock, 0, 9.0)
    voters: Any = {0: taken, 1: Voter(clock, 101, 0.0), 2: Voter(clock, 102, 0.5)}

    def ready(reading: set[int], writing: list[int], within_s: float) -> set[int]:
        clock.now = 1.0
        return reading

    votes = votes_of(voters, clock, monkeypatch, ready=ready, connect=lambda *_: None, patience_s=5.0)
    assert isinstance(votes[0], StoreUnavailable)
    assert votes[1:] == [[1], [1]]
    assert taken.closed
    assert 0 not in voters
