"""The acts of a cell on a majority of independent Redis servers; no I/O.

An act is a generator over rounds. Each `Round` is one run of the script on every server at once, and is
sent the votes: what each server answered, an error for one that failed, None for one that is silent.

A token is larger than that of every grant before it: each server counts on from the last that it knows, or
from its clock; the largest count of those that vote is the token; and it is written back to a majority
before the grant is used, so that a server of the next majority knows it. A server that forgot abstains for
`restart_grace`. Until then its clock is ahead of what it forgot, as long as clocks differ by less.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from recipes._contract.operations import Open, Opened
from recipes._record import record
from recipes.errors import StoreError, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES, Guarantees
from recipes.stores._kit.cell import Cell, Claim, Drop, Keep, Peek, Take
from recipes.stores._kit.queue import Command
from recipes.stores.redis.codec import evicts, facts
from recipes.stores.redis.keys import Keys
from recipes.stores.redis.requests import Word

__all__ = ["Acts", "Asking", "Round", "answers"]

Votes = Sequence[Any]


@record
class Round:
    """One run of the script on every server.

    Attributes:
        keys: As the script takes them.
        words: What follows the server's life.
        decided: Whether these votes are enough; the answers of the other servers are not waited for.
    """

    keys: tuple[str, ...]
    words: tuple[Word, ...]
    decided: Callable[[Votes], bool]


Asking = Generator[Round, Votes, Any]


class Acts:
    """What one session asks.

    Args:
        label: Where the store is, for errors.
        keys: Names them.
        grace_s: For how long a server abstains that may have forgotten something; 0: not at all.
        servers: How many there are.
        promised: What the store promises, unless one of those that answer says that it evicts: then as many
            may that others get a majority.
    """

    def __init__(
        self, label: str, keys: Keys, grace_s: float, servers: int, promised: Guarantees = STORES["redlock"]
    ) -> None:
        self._label, self._keys, self._grace_ms = label, keys, round(grace_s * 1000)
        self._promised = promised
        self._servers, self.quorum = servers, servers // 2 + 1
        self._tokens: dict[str, int] = {}  # by value
        self._takes = itertools.count(1)
        self._overtaken: dict[
            str, bool
        ] = {}  # by the value of a take under way: whether a renewal was asked since

    def of(self, command: Command) -> Asking:
        """Return what carries a command out."""
        match command.op:
            case Open() as op:
                return self._open(command.session, op)
            case Take() as op:
                return self._take(op)
            case Peek() as op:
                return self._peek(op)
            case Keep() as op:
                return self._claimed("keep", op.claims, op.ttl_s)
            case Drop() as op:
                return self._claimed("drop", op.claims, 0.0)
            case op:
                raise AssertionError(f"{op!r} should be an act")

    def _open(self, session: str, op: Open) -> Asking:
        def counted(votes: Votes) -> tuple[int, list[int]]:
            said = [int(vote[0]) for vote in answers(votes)]
            return said.count(self._grace_ms), [one for one in said if one != self._grace_ms]

        def decided(votes: Votes) -> bool:
            same, others = counted(votes)
            return same >= self.quorum or len(others) > self._servers - self.quorum

        votes = yield self._round("open", (), 0.0, decided)
        self._check_answered(votes)
        same, others = counted(votes)
        if same < self.quorum:
            raise StoreRefused(
                self._label,
                f"restart_grace is {others[0] / 1000:g} for the other clients and"
                f" {self._grace_ms / 1000:g} for this one; use the same, or delete the key"
                f" {self._keys.redlock_grace} on each server while no client runs",
            )
        any_evicts = any(evicts(facts(vote[1])) for vote in answers(votes))
        guarantees = replace(self._promised, proven=False) if any_evicts else None
        return Opened(session, op.ttl_s, guarantees=guarantees)

    def _take(self, op: Take) -> Asking:
        self._overtaken[op.value] = False
        try:
            cell: Cell = yield from self._take_once(op)
            # The session counts from that renewal, which may have been denied where the take had not landed.
            if cell.value == op.value and self._overtaken[op.value]:
                (kept,) = yield from self._claimed("keep", ((op.cell, op.value),), op.ttl_s)
                if not kept:
                    raise StoreUnavailable(self._label, "it was lost while it was taken")
            return cell
        finally:
            self._overtaken.pop(op.value, None)

    def _take_once(self, op: Take) -> Asking:
        claim, number = (op.cell, op.value), next(self._takes)
        votes = yield self._round("take", (claim,), op.ttl_s, self._settled, number)
        won = [at for at, vote in enumerate(votes) if _said(vote) == 1]
        noted: Votes = ()
        if len(won) >= self.quorum:
            token = max(int(votes[at][0][1]) for at in won)
            noted = yield self._round("note", (claim,), op.ttl_s, self._settled, token)
            if self._count(noted, 1) >= self.quorum:
                self._tokens[op.value] = token
                return Cell(op.value, token)
        # On all: the take may land where it was not answered. Those that voted for it have to confirm.
        dropped = yield self._round(
            "drop", (claim,), 0.0, lambda votes: all(_is_answer(votes[at]) for at in won), number
        )
        self._check_answered(votes)
        others = [vote[0] for vote in votes if _said(vote) == 0]
        if others and all(_is_answer(dropped[at]) for at in won):
            return self._seen([(value, left_ms) for _, value, left_ms in others])
        self._check_answered(noted or votes)
        left_ms = [vote[0][1] for vote in votes if _said(vote) == -1]
        if left_ms:
            left_s = sorted(left_ms, reverse=True)[: self._servers - self.quorum + 1][-1] / 1000
            said = f"{len(left_ms)} of {self._servers} servers started, and grant nothing for"
            raise StoreUnavailable(self._label, f"{said} {left_s:.1f} s more (restart_grace)", unsent=not won)
        raise StoreUnavailable(self._label, f"{len(won)} of {self._servers} servers voted for it")

    def _peek(self, op: Peek) -> Asking:
        def decided(votes: Votes) -> bool:
            values = Counter(vote[0][0] for vote in answers(votes))
            return values[b""] > self._servers - self.quorum or max(values.values(), default=0) >= self.quorum

        votes = yield self._round("peek", ((op.cell, ""),), 0.0, decided)
        self._check_answered(votes)
        if op.surely and not decided(votes):
            if len(answers(votes)) < self._servers:
                raise self._too_few(votes)
            return Cell()  # nobody holds
        held = [(value, left_ms) for ((value, left_ms),) in answers(votes) if value]
        free = len(answers(votes)) - len(held)
        if free > self._servers - self.quorum or not held:
            return Cell()
        return self._seen(held)

    def _claimed(self, act: str, claims: tuple[Claim, ...], ttl_s: float) -> Asking:
        """Renew or free cells; whether each was ours: a majority may say so, or a minority deny it."""
        for _, value in claims:
            if value in self._overtaken:
                self._overtaken[value] = True

        def decided(votes: Votes) -> bool:
            if not claims:
                return len(answers(votes)) >= self.quorum
            return all(self._settled(votes, at) for at in range(len(claims)))

        votes = yield self._round(act, claims, ttl_s, decided)
        self._check_answered(votes)
        if act == "keep" and not decided(votes):
            raise self._too_few(votes)
        found = tuple(self._count(votes, 0, at) <= self._servers - self.quorum for at in range(len(claims)))
        for (_, value), mine in zip(claims, found, strict=True):
            if act == "drop" or not mine:
                self._tokens.pop(value, None)
        return found

    def _too_few(self, votes: Votes) -> StoreUnavailable:
        said = f"{len(answers(votes))} of {self._servers} servers answered, too few to say who holds"
        return StoreUnavailable(self._label, said)

    def _seen(self, held: Sequence[tuple[bytes, int]]) -> Cell:
        """Return a cell that is held: by the value that most servers have, until enough of them are free."""
        value, _ = Counter(value for value, _ in held).most_common(1)[0]
        ends = sorted(math.inf if left_ms < 0 else left_ms / 1000 for _, left_ms in held)
        left_s = ends[max(len(ends) - (self._servers - self.quorum), 1) - 1]
        shown = value.decode(errors="backslashreplace")
        return Cell(shown, self._tokens.get(shown, 0), None if left_s == math.inf else left_s)

    def _settled(self, votes: Votes, at: int = 0) -> bool:
        """Whether no further vote changes what the majority says of a cell."""
        yes, answered = self._count(votes, 1, at), len(answers(votes))
        return yes >= self.quorum or answered - yes > self._servers - self.quorum

    def _count(self, votes: Votes, said: int, at: int = 0) -> int:
        return sum(_said(vote, at) == said for vote in votes)

    def _check_answered(self, votes: Votes) -> None:
        """Raise unless a majority answered."""
        if len(answers(votes)) >= self.quorum:
            return
        errors = [vote for vote in votes if isinstance(vote, StoreError)]
        refusals = [error for error in errors if not isinstance(error, StoreUnavailable)]
        if len(refusals) > self._servers - self.quorum:  # else others may have done it, and did not answer
            raise refusals[0]
        said = f"{len(answers(votes))} of {self._servers} servers answered, and {self.quorum} have to"
        raise StoreUnavailable(self._label, f"{said}{'; ' if errors else ''}{errors[0] if errors else ''}")

    def _round(
        self,
        act: str,
        claims: Sequence[Claim],
        ttl_s: float,
        decided: Callable[[Votes], bool],
        number: int = 0,
    ) -> Round:
        keys = [self._keys.life, self._keys.redlock_grace]
        for cell, _ in claims:
            keys += self._keys.base(cell), self._keys.beside(cell, "last")
        values = tuple(value for _, value in claims)
        return Round(tuple(keys), (act, self._grace_ms, round(ttl_s * 1000), number, *values), decided)


def _is_answer(vote: Any) -> bool:
    return vote is not None and not isinstance(vote, Exception)


def answers(votes: Votes) -> list[Any]:
    """Return the votes that are answers, and not errors or silence."""
    return [vote for vote in votes if _is_answer(vote)]


def _said(vote: Any, at: int = 0) -> int | None:
    """Return the number that a vote begins with, or is."""
    if not _is_answer(vote):
        return None
    said = vote[at]
    return int(said if isinstance(said, int) else said[0])
