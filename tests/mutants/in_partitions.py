"""Bugs in partitions: in the rule that shares, the program that holds a share, and programs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.connection import Batch
from recipes._programs import sharing as program
from recipes._programs.crew import Crew
from recipes._programs.hold import HeldState, StoreSession
from recipes._programs.sharing import Partitioning
from recipes._rules import sharing as rule
from recipes._rules.sharing import Sharing
from recipes._run import lanes
from recipes._run.lanes import Inbox, Lane
from tests.mutants.transports import TransportMutant
from tests.simulation.bugs import swap

__all__ = ["IN_PARTITIONS"]


def _planted(where: str, tests: str, bugs: dict[str, Any]) -> list[TransportMutant]:
    return [TransportMutant(name, where, tests, plant) for name, plant in bugs.items()]


def _after(owner: Any, name: str, change: Any) -> list[Any]:
    """Have what a method returns changed, with what it was called with."""
    original = getattr(owner, name)
    return swap(owner, name, lambda *args: change(original(*args), *args))


def _owners_by_turns(self: Sharing, members: Any) -> tuple[str, ...]:
    present = sorted({*members})
    return tuple(present[number % len(present)] for number in range(len(self.items))) if present else ()


def _parted_at_once(self: Any, item: str, hold: HeldState) -> None:
    del self._held[item]
    self._leaving[item] = hold, 0


def _parted_with_all_known(self: Any, item: str, hold: HeldState) -> None:
    del self._held[item]
    self._leaving[item] = hold, self._shown.number + 1


def _forgotten(self: Any, item: str, hold: HeldState) -> None:
    del hold
    del self._held[item]


def _looks_without_itself(self: Any, contenders: Any) -> bool:
    original_counted, self._counted = self._counted, False
    try:
        return bool(_LOOK(self, contenders))
    finally:
        self._counted = self._counted or original_counted


_LOOK = Partitioning.look


def _shares_with_all(self: Any, contenders: Any) -> bool:
    return bool(_LOOK(self, tuple(replace(one, mark=self.mark) for one in contenders)))


def _never_early(self: Any, now: float) -> float:
    self._shown_at = -1.0
    return float(_SHOW(self, now))


_SHOW = Partitioning.show


def _handed_out_in_turn(together: list[Lane], reply: Any) -> None:
    """Give each one part of the reply, however many it asked for."""
    if len(together) == 1:
        together[0].go_on(reply)
        return
    for lane, own in zip(together, reply, strict=False):
        lane.go_on((own,) if isinstance(lane.asks, Batch) else own)


def _posts_to_itself(self: Any, event: Any) -> None:
    self.events.append(event)
    self._woken.append(self._key)


def _unwoken(self: Any, event: Any) -> None:
    self._woken.append(self._key)
    self._shared.post(lanes.Stirred())
    del event


def _without_entry(parent: Any, inbox: Any, started: Any) -> Any:
    call = _LANE_CALL(parent, inbox, started)
    call.ticket = call.entry = None
    return call


_LANE_CALL = lanes._lane_call


IN_PARTITIONS = [
    *_planted(
        "sharing",
        "tests/rules/test_sharing.py",
        {
            "items go to members in turn": lambda: swap(Sharing, "owners", _owners_by_turns),
            "one that is no member has a share": lambda: swap(
                Sharing,
                "of",
                lambda self, one, members: tuple(
                    item
                    for item, owner in zip(self.items, self.owners([*members, one]), strict=True)
                    if owner == one
                ),
            ),
            "the order of the items is in the mark": lambda: swap(
                rule, "mark_of", lambda items: "-".join(items).replace("\n", "")
            ),
            "scores of those that went are kept": lambda: _after(
                Sharing,
                "owners",
                lambda found, self, members: (self._scores.update({str(len(self._scores)): []}), found)[1],
            ),
            "a score has two values": lambda: _after(
                Sharing, "_score", lambda scores, self, member: type(scores)("Q", [one % 2 for one in scores])
            ),
        },
    ),
    *_planted(
        "holding a share",
        "tests/programs/test_sharing.py",
        {
            "an item that moves is given back at once": lambda: swap(
                Partitioning, "_part_with", _parted_at_once
            ),
            "an item that nobody was shown waits for the user": lambda: swap(
                Partitioning, "_part_with", _parted_with_all_known
            ),
            "an item that moves is forgotten and held": lambda: swap(Partitioning, "_part_with", _forgotten),
            "one that is not listed lets go of nothing and asks nobody": lambda: swap(
                Partitioning, "look", _looks_without_itself
            ),
            "those that share other items count": lambda: swap(Partitioning, "look", _shares_with_all),
            "every grant is shown by itself": lambda: swap(Partitioning, "show", _never_early),
            "one that waits for what is not its own waits on": lambda: swap(
                Crew, "stop", lambda self, key, error: None
            ),
            "all items are asked for at once": lambda: swap(program, "MOST_AT_ONCE", 10**6),
            "what was lost is not asked for again": lambda: (
                _after(Partitioning, "run", lambda found, self, at_most_s: found)
                + swap(
                    HeldState, "remaining", lambda self, now: 1.0 if self.reason else _REMAINING(self, now)
                )
            ),
            "an error is held back": lambda: swap(program, "SessionLost", Exception),
        },
    ),
    *_planted(
        "programs side by side",
        "tests/run/test_lanes.py",
        {
            "each gets one part of the replies": lambda: swap(lanes, "_hand_out", _handed_out_in_turn),
            "what cannot be sent with others is": lambda: swap(
                lanes, "parts_of", lambda request: request.parts if isinstance(request, Batch) else (request,)
            ),
            "nothing is sent together": lambda: swap(lanes, "_together", lambda asking: asking[:1]),
            "a batch has any number of parts": lambda: swap(lanes, "MOST_TOGETHER", 10**6),
            "an event of one wakes nobody": lambda: swap(Inbox, "post", _posts_to_itself),
            "an event of one is dropped": lambda: swap(Inbox, "post", _unwoken),
            "what is given back is not withdrawn by an interrupt": lambda: swap(
                lanes, "_lane_call", _without_entry
            ),
            "one that has ended is notified on": lambda: swap(
                Lane,
                "_end",
                lambda self, ended: (self._crew.lanes.pop(self._key), self._crew.ended.append(ended)),
            ),
            "one whose time is over sleeps on": lambda: swap(
                Lane,
                "wake",
                lambda self, now: self.go_on(self._inbox.events.popleft()) if self._inbox.events else None,
            ),
        },
    ),
    *_planted(
        "session",
        "tests/programs/test_keep.py",
        {
            "every item is looked at with each renewal": lambda: swap(
                StoreSession,
                "due",
                lambda self: (tuple(hold.entry for hold in self.holds.values()), ()),
            ),
            "some items are never looked at": lambda: swap(StoreSession, "next_turn", lambda self: 1),
            "a look without an answer counts": lambda: _after(
                StoreSession,
                "due",
                lambda found, self: (setattr(self, "renewals", self.renewals + 1), found)[1],
            ),
        },
    ),
]

_REMAINING = HeldState.remaining
