"""The acts of a cell as commands, most of them meta commands, and what a server says of itself; no I/O.

An act yields what is to be sent, and is sent the answers. What this session knows of its items is their
count (``cas``): one that the server takes from one counter for each write, so that nobody else's has it.

Nothing here sends ``ms``. If there is no memory for what it would store, the server deletes the item that
is there, whatever the mode and the count: the lock of another. ``add`` leaves that item alone, and a renewal
needs no memory: ``md`` with ``I`` compares the count and sets the time of the item where it is. It also
gives it a new count, and marks it as stale, which shows in what ``mg`` answers (``X``, ``W``, ``Z``) and
means nothing here; ``get``, ``add`` and ``delete`` do not look at the mark.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from recipes._contract.operations import Open, Opened
from recipes._record import record
from recipes.errors import StoreFull, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.cell import Cell, Claim, Drop, Keep, Peek, Take
from recipes.stores._kit.queue import Command

__all__ = ["GREETING", "Acts", "Answer", "Asking", "Life", "read"]

GREETING = (b"stats\r\n", b"stats settings\r\n")
OLDEST = 1, 6, 13
"""Meta commands answer as in `read` since 1.6.10; before 1.6.13 ``md`` compared each count with 0."""
LONGEST_KEY = 250
AT_ONCE = 200
"""So many items are asked for at a time: their answers have room until all of that was sent, and are read."""
TICKS_S = 2  # an item ends with a tick of the server's clock: up to 1 s early, 2 s if a tick was late
SHORTEST_GRACE_S = 2.0  # two lives of a server do not begin in one second
BORN_S = 1_600_000_000  # so that tokens have room in 63 bits until 2088
ROOM = 2**32
FULL = "SERVER_ERROR out of memory storing object"
"""What is answered instead of ``STORED``; nothing was stored, and nothing deleted."""
CROWDED = "ERROR Too many open connections"
"""What a new connection is answered, and closed, while there are as many as ``-c`` allows."""


@record
class Answer:
    """One answer: its code, the count of the item, what the item holds, and what statistics say."""

    code: str
    cas: int = 0
    value: str = ""
    facts: tuple[tuple[str, str], ...] = ()


@record
class Life:
    """One life of a server, from its start to its end: what it was at one moment.

    Attributes:
        base: Where its tokens begin, above those of all lives before.
        since: At what moment of the client's clock it was up for certain, at the latest.
        cas: Whether it counts.
        evicts: Whether it forgets items when its memory is used up.
    """

    base: int
    since: float
    cas: bool = True
    evicts: bool = False

    @classmethod
    def of(cls, label: str, answers: Sequence[Answer], now: float) -> Life:
        """Return what the answers to `GREETING` say, which had come at ``now``."""
        facts = {name: said for answer in answers for name, said in answer.facts}
        version = facts.get("version", "unknown")
        if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise StoreRefused(label, f"its version is {version}, and locks need Memcached {oldest}")
        uptime = int(facts["uptime"])
        # It begins at 2, and both ends of it are cut to a second.
        return cls(
            (int(facts["time"]) - uptime - BORN_S) * ROOM,
            now - max(uptime - 3, 0),
            facts.get("cas_enabled") == "yes",
            facts.get("evictions") == "on",
        )


Asking = Generator[Sequence[bytes], list[Answer], Any]


def read(data: bytes, label: str) -> tuple[Answer, int] | None:
    """Return the first answer in what was received, and how long it is; None: it is not complete.

    Raises:
        StoreRefused, StoreUnavailable: It is an error, and not `FULL`.
    """
    line, end, rest = data.partition(b"\r\n")
    if not end:
        return None
    code, *words = line.decode("ascii", "replace").split(" ")
    length = len(line) + 2
    if code == "STAT":
        body, end, _ = data.partition(b"END\r\n")
        lines = [one.split(" ", 2) for one in body.decode("ascii", "replace").split("\r\n") if one]
        facts = tuple((one[1], one[2]) for one in lines if len(one) == 3)
        return (Answer(code, facts=facts), len(body) + 5) if end else None
    if code in ("STORED", "NOT_STORED", "HD", "EX", "NF", "EN", "MN", "VA"):
        size = int(words.pop(0)) if code == "VA" else -2
        cas = 0
        for word in words:
            if word.startswith("c"):
                cas = int(word[1:])
        if size < 0:  # most are such
            return Answer(code, cas), length
        value = rest[:size].decode(errors="backslashreplace")
        return (Answer(code, cas, value), length + size + 2) if len(rest) >= size + 2 else None
    said = line.decode("ascii", "replace")
    if said == FULL:
        return Answer(FULL), length
    if code == "SERVER_ERROR" or said.startswith(CROWDED):
        raise StoreUnavailable(label, said)
    raise StoreRefused(label, f"it answered {said[:100]!r}")


class Acts:
    """What one session asks.

    Args:
        label: Where the store is, for errors.
        prefix: What keys begin with.
        grace_s: For how long nothing is granted after a start; 0: for as long as tokens need.
    """

    def __init__(self, label: str, prefix: str, grace_s: float) -> None:
        self._label, self._prefix = label, prefix
        self._grace_s = max(grace_s, SHORTEST_GRACE_S)
        self._known: dict[str, tuple[int, int, int]] = {}  # by value: the life's base, the count, the token

    def of(self, command: Command, life: Life, now: float) -> Asking:
        """Return what carries a command out with a server, in the life in which the connection found it."""
        match command.op:
            case Open() as op:
                return self._open(command.session, op, life)
            case Take() as op:
                return self._take(op, life, now)
            case Peek() as op:
                return self._peek(op, life)
            case Keep() as op:
                return self._kept(op, life)
            case Drop() as op:
                return self._dropped(op, life)
            case op:
                raise AssertionError(f"{op!r} should be an act")

    def key(self, cell: str) -> bytes:
        """Return the key of a cell: the name as it is, where a key can be that and no other name is."""
        return _key(self._prefix, cell)

    def _open(self, session: str, op: Open, life: Life) -> Asking:
        if not life.cas:
            raise StoreRefused(self._label, "it was started with -C, and cannot tell who holds a lock")
        yield ()  # that it is there was seen when the connection was made
        return Opened(
            session, op.ttl_s, guarantees=replace(STORES["memcached"], proven=False) if life.evicts else None
        )

    def _take(self, op: Take, life: Life, now: float) -> Asking:
        left_s = life.since + self._grace_s - now
        if left_s > 0:
            said = f"it started, and grants nothing for {left_s:.1f} s more (restart_grace)"
            raise StoreUnavailable(self._label, said, unsent=True)
        claim = op.cell, op.value
        while True:
            added, found = yield self._added(claim, op.ttl_s), self._looked(op.cell)
            if found.value == op.value and added.code != "STORED":
                # The answer to the take that wrote it may have been lost.
                self._note(op.value, life, found)
                (found,) = yield from self._each((claim,), life, op.ttl_s)
            if found.value == op.value:
                self._known.pop(op.value, None)  # it is a token of its own, whatever was taken before
                self._note(op.value, life, found)
                return Cell(op.value, life.base + found.cas)
            if found.code == "VA":
                return self._seen(found, life)
            if added.code == FULL:
                raise StoreFull(self._label, FULL)

    def _peek(self, op: Peek, life: Life) -> Asking:
        (answer,) = yield (self._looked(op.cell),)
        if answer.code == "EN":
            return Cell()
        return self._seen(answer, life)

    def _seen(self, answer: Answer, life: Life) -> Cell:
        """Return a cell that is held. The count is that of a take only where nobody renews."""
        if "/" not in answer.value:
            return Cell(answer.value or "?", life.base + answer.cas)
        base, _, token = self._known.get(answer.value, (0, 0, 0))
        return Cell(answer.value, token if base == life.base else 0)

    def _kept(self, op: Keep, life: Life) -> Asking:
        if not op.claims:
            yield (b"mn\r\n",)
        answers = yield from self._each(op.claims, life, op.ttl_s)
        for (_, value), answer in zip(op.claims, answers, strict=True):
            if answer.value == value:
                self._note(value, life, answer)
            else:
                self._known.pop(value, None)
        return tuple(answer.value == value for (_, value), answer in zip(op.claims, answers, strict=True))

    def _dropped(self, op: Drop, life: Life) -> Asking:
        answers = yield from self._each(op.claims, life, None)
        for _, value in op.claims:
            self._known.pop(value, None)
        return tuple(answer.code == "HD" for answer in answers)

    def _each(self, claims: Sequence[Claim], life: Life, ttl_s: float | None) -> Asking:
        """Begin the times of the items anew, or delete them without a time, as far as each has its value.

        By the count that is known; if the item has another, or none is known, by what it is now. The last
        answer of each: VA with its value, or HD without a time, if that was done; NF or EN where there is
        none; VA with what another's holds.
        """
        ends: dict[Claim, Answer] = {}
        left: dict[Claim, int] = {}
        for claim in claims:
            base, cas, _ = self._known.get(claim[1], (0, 0, 0))
            left[claim] = cas if base == life.base else 0
        while left:
            some = itertools.islice(left.items(), AT_ONCE)
            asked = {claim: self._owned(claim, cas, ttl_s) for claim, cas in some}
            answers = iter((yield [request for requests in asked.values() for request in requests]))
            for claim, requests in asked.items():
                wrote, *others = (next(answers) for _ in requests)
                found = others[0] if others else wrote
                if found.code == "EX" or (found.value == claim[1] and wrote.code != "HD"):
                    left[claim] = found.cas
                else:
                    ends[claim] = found
                    del left[claim]
        return [ends[claim] for claim in claims]

    def _owned(self, claim: Claim, cas: int, ttl_s: float | None) -> tuple[bytes, ...]:
        look = self._looked(claim[0])
        if not cas:
            return (look,)
        if ttl_s is None:
            return (b"md %b C%d\r\n" % (self.key(claim[0]), cas),)
        return b"md %b C%d I T%d\r\n" % (self.key(claim[0]), cas, _whole_s(ttl_s)), look

    def _added(self, claim: Claim, ttl_s: float) -> bytes:
        cell, value = claim[0], claim[1].encode()
        return b"add %b 0 %d %d\r\n%b\r\n" % (self.key(cell), _whole_s(ttl_s), len(value), value)

    def _looked(self, cell: str) -> bytes:
        return b"mg %b v c\r\n" % self.key(cell)

    def _note(self, value: str, life: Life, answer: Answer) -> None:
        """Note the count of an own item; its token stays that of the take, as far as that is known."""
        base, _, token = self._known.get(value, (0, 0, 0))
        # Added, not put beside it: a count of 2**32 and more goes on rising, and stays below the next life's.
        token = token if base == life.base else life.base + answer.cas
        self._known[value] = life.base, answer.cas, token


def _whole_s(ttl_s: float) -> int:
    """Return the time of an item that lives for so many seconds at least."""
    return math.ceil(ttl_s) + TICKS_S


@lru_cache(maxsize=1024)
def _key(prefix: str, cell: str) -> bytes:
    name = unquote(cell)
    if cell[0] == "~" or name[0] == "~" or not re.fullmatch(r"[!-$&-~]+", name):
        name = cell
    key = prefix + name
    if len(key) > LONGEST_KEY:
        key = f"{prefix}~{hashlib.sha256(cell.encode()).hexdigest()}"
    return key.encode()
