"""Bugs to plant in elections."""

from __future__ import annotations

from typing import Any
from unittest import mock

from recipes._api.leadership import BaseElection, _leader
from recipes._contract.operations import List, Program
from recipes._contract.rule import Nearest, Rule
from recipes._programs.observing import Observed, look_up
from tests.simulation.bugs import swap

TWO = Rule("lock", Nearest(2), depth=2)


def two_lead() -> list[Any]:
    return swap(BaseElection, "_rule", TWO)


def last_in_line_is_shown() -> list[Any]:
    def shown(self: Any) -> Program[Any]:
        listing = yield from look_up(List(self._queue, 2))
        return _leader(listing.contenders[-1:])

    return swap(BaseElection, "_look", shown)


def candidates_are_shown() -> list[Any]:
    """An observer is shown the newest candidate, which leads some time later."""

    def newest(contenders: Any) -> Any:
        return _leader(contenders[-1:])

    observed = property(lambda self: (self._runtime, Observed(self._queue, 9), newest))
    return swap(BaseElection, "_observed", observed)


def none_is_never_shown() -> list[Any]:
    """While there is no leader, the last one is shown on."""

    def another(self: Any, observer: Any) -> Program[Any]:
        while True:
            number, seen = yield from original(self, observer)
            if seen is not None or self._last == (0,):
                return number, seen
            self._last = number, *self._last[1:]

    from recipes._api.observing import _Observing

    original = _Observing._another
    return [mock.patch.object(_Observing, "_another", another)]
