"""Bugs to plant in group membership."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from recipes._api.held import Held
from recipes._api.membership import BaseGroup, BaseMembership
from recipes._contract.deadline import Expired
from recipes._contract.operations import Evict, List, Program
from recipes._contract.rule import Rule
from recipes._programs import queueing
from recipes._programs.observing import Observed, look_up
from recipes._programs.steps import Attach
from recipes._rules import holding, members, roster
from recipes._rules.members import member, new_member, pack
from recipes.errors import StoreError
from tests.simulation.bugs import swap

MEMBERSHIP = "recipes._api.membership"


def _of_rule(rule: Any) -> list[Any]:
    """Have members under an id that others may have queue by another rule."""
    return [
        mock.patch(f"{MEMBERSHIP}.member", rule),
        mock.patch(f"{MEMBERSHIP}.member_of", return_value=None),
    ]


def waits_for_all_ahead() -> list[Any]:
    return _of_rule(lambda member_id: replace(member(member_id), own_kind_only=False, depth=1))


def waits_for_none() -> list[Any]:
    return _of_rule(lambda member_id: Rule(member(member_id).kind, lambda ahead: (), own_kind_only=True))


def looks_at_two_ahead() -> list[Any]:
    """As a member under an id of its own does."""
    return _of_rule(new_member)


def new_again_in_the_next_session() -> list[Any]:
    """One under an id of its own does not look for its contender of the session before."""
    return swap(BaseGroup, "_attempt", Held._attempt)


def ids_meet() -> list[Any]:
    """The kind is of one bit: different ids exclude each other."""
    return _of_rule(lambda member_id: _kind(f"M{int(member(member_id).kind[1:]) % 2}"))


def ids_differ() -> list[Any]:
    """The kind of an id is not the same in all processes."""
    count = itertools.count()
    return _of_rule(lambda member_id: _kind(f"M{next(count) % 2}"))


def _kind(kind: str) -> Rule:
    return replace(member("a"), kind=kind)


def waiting_ones_are_shown() -> list[Any]:
    return swap(roster, "granted", lambda queue: [True] * len(queue))


def none_behind_a_waiting_one_is_shown() -> list[Any]:
    """As in other queues: holders are its head."""

    def granted(queue: Any) -> list[bool]:
        return list(itertools.accumulate(holding.granted(queue), lambda before, holds: before and holds))

    return swap(roster, "granted", granted)


def few_are_shown() -> list[Any]:
    return [
        *swap(BaseGroup, "_looking", lambda self: look_up(List(self._queue, 2))),
        *swap(BaseGroup, "_observed", lambda self: Observed(self._queue, 2)),
    ]


def shown_by_id() -> list[Any]:
    """Not as they came."""

    def sorted_members(queue: Any) -> Any:
        return sorted(original(queue), key=lambda one: one.id)

    original = roster.members
    return [mock.patch(f"{MEMBERSHIP}.members", sorted_members)]


def update_forgets_the_id() -> list[Any]:
    return swap(BaseMembership, "_saying", lambda self, data: data)


def update_takes_the_id_of_another() -> list[Any]:
    return swap(BaseMembership, "_saying", lambda self, data: pack("b", data))


def own_contender_is_looked_for_among_few() -> list[Any]:
    """An update whose answer was lost takes a member deep in the queue for gone."""

    return [mock.patch("tests.simulation.group.ALL", 1)]


def takes_the_id_over() -> list[Any]:
    """Who comes removes the member that has its id: that one still believes in it."""

    def acquire(attempt: Any) -> Program[Any]:
        with suppress(Expired, StoreError):
            yield from Attach()
            listing = yield from List(attempt.queue, 99)
            for one in listing.contenders:
                if one.kind == attempt.rule.kind:
                    yield from Evict(attempt.queue, one.ref, one.token)
        return (yield from original(attempt))

    original = queueing.acquire
    return [mock.patch("tests.simulation.users.acquire", acquire)]


def last_of_an_id_is_shown() -> list[Any]:
    """Of those that have an id in common the last to come is shown, which has to wait."""

    def newest(queue: Any) -> Any:
        return list({one.id: one for one in everyone(queue)}.values())

    def everyone(queue: Any) -> Any:
        says = [(members.unpack(one.data), one) for one in queue]
        return [roster.Listed(*said, one) for said, one in says if said is not None]

    return [mock.patch(f"{MEMBERSHIP}.members", newest)]
