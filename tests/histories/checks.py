"""What must hold of the grants of one read-write lock, looked for in what their holders noted.

Every stamp is of the boot-time clock, which all processes of a machine share: ``asked``
before the acquire was called, ``granted`` after it returned, ``downgraded`` and
``released`` before those were called. So what the stamps show to be wrong was wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._rules.exclusive import WRITER
from recipes._rules.readwrite import SHARED
from recipes._rules.registry import rule_of

__all__ = ["Visit", "faults"]


@dataclass(frozen=True, slots=True)
class Visit:
    """One grant, from its acquire to its release; ``downgraded`` is None if it was not."""

    writes: bool
    token: int
    asked: float
    granted: float
    released: float
    downgraded: float | None = None
    who: str = ""

    @property
    def kind(self) -> str:
        """Return what kind of contender it was."""
        return WRITER.kind if self.writes else SHARED.kind

    def seen_at(self, moment: float) -> Contender:
        """Return what the rules judge of it, as it was then."""
        downgraded = self.downgraded is not None and self.downgraded <= moment
        return Contender(str(self), kind=self.kind, mark=DOWNGRADED if downgraded else "")

    @property
    def exclusive_until(self) -> float:
        """Return until when nobody else may hold; before all time for a reader."""
        if not self.writes:
            return -math.inf
        return self.released if self.downgraded is None else self.downgraded


def faults(visits: Iterable[Visit], *, fifo: bool = True) -> list[str]:
    """Return what is wrong with a history, in words; nothing if it is right.

    Without ``fifo``, whoever comes later may be granted first, as long as none holds beside it.
    """
    by_token = sorted(visits, key=lambda visit: visit.token)
    together = _overtaken(by_token) if fifo else _beside(by_token)
    return [*_doubled(by_token), *together, *_stale(by_token)]


def _doubled(by_token: list[Visit]) -> Iterator[str]:
    """S3: a token is one grant's alone."""
    for one, other in itertools.pairwise(by_token):
        if one.token == other.token:
            yield f"one token for two: {one} and {other}"


def _overtaken(by_token: list[Visit]) -> Iterator[str]:
    """S6 and L3: what an earlier contender blocks, by its rule, is granted after that one was through.

    Of two that exclude each other one has the smaller token, so this is exclusion, and
    order of arrival, at once.
    """
    first_granted = list(itertools.accumulate((visit.granted for visit in reversed(by_token)), min))[::-1]
    standing: list[Visit] = []
    for visit, since in zip(by_token, first_granted, strict=True):
        standing = [one for one in standing if one.released > since]
        ahead = [one for one in reversed(standing) if one.released > visit.granted]
        blockers = rule_of(visit.kind).blockers(tuple(one.seen_at(visit.granted) for one in ahead))
        if blockers:
            what = "a writer" if visit.writes else "a reader"
            yield f"{what} beside, or before, one that came first: {visit} and {blockers[0].ref}"
        standing.append(visit)


def _beside(visits: Iterable[Visit]) -> Iterator[str]:
    """S2 and S6: while somebody holds exclusively, nobody else holds; in whatever order they came."""
    last_any = last_exclusive = _Span(-math.inf, -math.inf, exclusive=True)
    for span in sorted(itertools.chain.from_iterable(map(_spans, visits)), key=lambda span: span.since):
        in_its_way = last_any if span.exclusive else last_exclusive
        if span.since < in_its_way.until:
            what = "a writer" if span.exclusive else "a reader"
            yield f"{what} beside another: {span.visit} and {in_its_way.visit}"
        last_any = max(last_any, span, key=lambda one: one.until)
        if span.exclusive:
            last_exclusive = max(last_exclusive, span, key=lambda one: one.until)


@dataclass(frozen=True, slots=True)
class _Span:
    """A time in which a visit held in one mode."""

    since: float
    until: float
    exclusive: bool
    visit: Visit | None = None


def _spans(visit: Visit) -> Iterator[_Span]:
    turned = visit.granted
    if visit.writes:
        turned = min(visit.exclusive_until, visit.released)
        yield from _span(visit.granted, turned, visit, exclusive=True)
    yield from _span(turned, visit.released, visit, exclusive=False)


def _span(since: float, until: float, visit: Visit, *, exclusive: bool) -> Iterator[_Span]:
    if since < until:
        yield _Span(since, until, exclusive, visit)


def _stale(by_token: list[Visit]) -> Iterator[str]:
    """S3: a token is larger than that of every grant that was returned before it was asked for."""
    granted = iter(sorted(by_token, key=lambda visit: visit.granted))
    following = next(granted, None)
    newest: Visit | None = None
    for visit in sorted(by_token, key=lambda visit: visit.asked):
        while following is not None and following.granted < visit.asked:
            if newest is None or following.token > newest.token:
                newest = following
            following = next(granted, None)
        if newest is not None and newest.token > visit.token:
            yield f"an old token, {visit}, asked for after {newest}"
