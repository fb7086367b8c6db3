"""Bugs to plant in partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from recipes._api import sharing as nouns
from recipes._contract.contenders import Ahead
from recipes._contract.names import queue_of
from recipes._programs.sharing import Partitioning
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.roster import members
from recipes._rules.sharing import Sharing
from recipes.grant import _BaseGrant
from tests.simulation.bugs import swap


def _nobody(ahead: Ahead) -> Ahead:
    return ()


def without_locks() -> list[Any]:
    return swap(nouns, "EXCLUSIVE", replace(EXCLUSIVE, blocked_by=_nobody))


def one_lock_for_all() -> list[Any]:
    return swap(nouns, "queue_of", lambda recipe, name: queue_of(recipe, "q/a"))


def gives_back_at_once() -> list[Any]:
    """What is another's is given back while its user works on it."""

    def part_with(self: Any, item: str, hold: Any) -> None:
        original(self, item, hold)
        self._leaving[item] = hold, 0

    original = Partitioning._part_with
    return swap(Partitioning, "_part_with", part_with)


def never_gives_back() -> list[Any]:
    return swap(Partitioning, "_give_back", lambda self, hold: None)


def keeps_what_is_anothers() -> list[Any]:
    """A member takes what is its own, and lets go of nothing."""

    def part_with(self: Any, item: str, hold: Any) -> None:
        self._mine[item] = None

    return swap(Partitioning, "_part_with", part_with)


def belongs_to_none() -> list[Any]:
    original = Sharing.of
    return swap(Sharing, "of", lambda self, member, present: original(self, member, present)[:-1])


def counts_all_members() -> list[Any]:
    """Those, too, that do not share the items."""

    def everyone(contenders: Any) -> Any:
        return [
            replace(one, contender=replace(one.contender, mark=mark))
            for one in members(contenders)
            for mark in marks
        ]

    def look(self: Any, contenders: Any) -> Any:
        marks[:] = [self.mark]
        return original(self, contenders)

    marks: list[str] = []
    original = Partitioning.look
    return [*swap(Partitioning, "look", look), mock.patch("recipes._programs.sharing.members", everyone)]


def looks_once() -> list[Any]:
    """Who came or went since is not noticed."""

    def look(self: Any, contenders: Any) -> Any:
        return True if self._counted else original(self, contenders)

    original = Partitioning.look
    return swap(Partitioning, "look", look)


def what_was_lost_is_not_asked_for() -> list[Any]:
    def asked_for(self: Any) -> list[str]:
        self._ever = {*getattr(self, "_ever", ()), *self._held}
        for item in self._ever:
            if item not in self._held and item not in self._leaving:
                self._mine.pop(item, None)
        return original(self)

    original = Partitioning._asked_for
    return swap(Partitioning, "_asked_for", asked_for)


def new_grants_are_not_shown() -> list[Any]:
    """Where the items are the same."""

    def show(self: Any, now: float) -> float:
        mine = {item for item in self._mine if item in self._held}
        if self._shown.number and mine == self._shown.items.keys() and not self._leaving:
            return float("inf")
        return original(self, now)

    original = Partitioning.show
    return swap(Partitioning, "show", show)


def user_is_not_told_what_leaves() -> list[Any]:
    def show(self: Any, now: float) -> float:
        leaving, self._leaving = self._leaving, {}
        try:
            return original(self, now)
        finally:
            self._leaving = leaving

    original = Partitioning.show
    return swap(Partitioning, "show", show)


def lost_member_keeps_its_items() -> list[Any]:
    return swap(nouns.BaseSharing, "_releasing", _BaseGrant._releasing)
