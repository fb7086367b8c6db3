"""Random scripts for Redis: acts of the store's script in every mixture, and what others do to its keys.

What a script cannot know has a name: ``@a1`` is the token that a reply last gave to it, ``@foreign``
that of the stranger, ``#v`` the version that a reply last gave, ``#r`` that of a receipt.
"""

from __future__ import annotations

import random
from typing import Any

from integration.differential.script import Script, Step
from recipes._contract.contenders import DOWNGRADED
from recipes._record import record

__all__ = ["SESSIONS", "Act", "Plain", "Sleep", "redis_script"]

SESSIONS = ("1a", "2b", "3c")
IDS = ("a1", "a2", "b1", "b2", "c1")
SHORT_MS, LONG_MS = 120, 60_000
KINDS = ("W", "W", "R", "R")
FAR_US = 3_600_000_000


@record
class Act:
    """One act; nothing is granted for ``starting_us`` from now on."""

    queue: str
    act: str
    words: tuple[Any, ...]
    ttl_ms: int = LONG_MS
    starting_us: int = 0
    tombstone: str = ""
    guards: tuple[str, ...] = ()


@record
class Plain:
    """A command about the key that other programs write; FORGET: the records of the queue have expired."""

    queue: str
    words: tuple[Any, ...]


@record
class Sleep:
    """Let time pass, until short leases are over."""

    ms: int = SHORT_MS + 30


class _Author:
    """Writes one script."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"redis {seed}")
        self.queue = self.rng.choice(("q", "q", "q", "~election/q"))
        self.short = self.rng.random() < 0.5

    def script(self) -> Script:
        length = self.rng.randint(15, 40)
        steps = [self.step() for _ in range(length)]
        return Script(self.seed, tuple(steps))

    def step(self) -> Step:
        """Return one step; an attempt is joined and removed by the session that has made it."""
        request = self.request()
        own = isinstance(request, Act) and request.act in ("join", "remove")
        session = "abc".index(request.words[0][0]) if own else self.rng.randrange(len(SESSIONS))
        return Step(session, request)

    def request(self) -> Any:
        kinds = {
            "join": 30,
            "see": 8,
            "present": 8,
            "touch": 10,
            "remove": 16,
            "expel": 3,
            "rewrite": 7,
            "list": 6,
            "get": 4,
            "put": 8,
            "foreign": 8 if self.queue == "q" else 0,
            "sleep": 3 if self.short else 0,
        }
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        return getattr(self, kind)()

    def act(self, act: str, *words: Any, **more: Any) -> Act:
        rng = self.rng
        ttl_ms = SHORT_MS if self.short and rng.random() < 0.4 else LONG_MS
        starting_us = FAR_US if rng.random() < 0.06 else 0
        return Act(self.queue, act, words, ttl_ms, starting_us, **more)

    def one(self) -> str:
        return self.rng.choice(IDS)

    def token(self) -> str:
        return f"@{'foreign' if self.rng.random() < 0.08 else self.one()}"

    def join(self) -> Act:
        rng, one = self.rng, self.one()
        exclusive_only = int(rng.random() < 0.4)
        only, let_in = (
            (rng.choice((1, 1, 2)), rng.choice(("", DOWNGRADED))) if rng.random() < 0.2 else ("", "")
        )
        words = (one, rng.choice(KINDS), rng.choice(("", "me")), rng.choice((b"", b"d\x00")), exclusive_only)
        return self.act(
            "join", *words, rng.choice((2, 2, 3)), rng.choice((0, 1, 2)), only, let_in, tombstone=one
        )

    def see(self) -> Act:
        rng = self.rng
        watched = [self.token() for _ in range(rng.randint(0, 2))]
        return self.act("see", f"@{self.one()}", rng.randint(0, 1), rng.choice((1, 2, 5)), *watched)

    def present(self) -> Act:
        pairs = [
            (self.token(), self.rng.choice(("*", "*", "", DOWNGRADED))) for _ in range(self.rng.randint(0, 2))
        ]
        return self.act(
            "present", self.rng.randint(0, 1), f"@{self.one()}", *(word for pair in pairs for word in pair)
        )

    def touch(self) -> Act:
        asked = [self.rng.choice((f"@{one}", f"@{one}", f"i:{one}")) for one in self.rng.sample(IDS, 2)]
        return self.act("touch", *asked)

    def remove(self) -> Act:
        one, rng = self.one(), self.rng
        token = rng.choice((f"@{one}", f"@{one}", f"@{one}", "", f"@{self.one()}"))
        return self.act("remove", one, token, int(rng.random() < 0.15), tombstone=one)

    def expel(self) -> Act:
        return self.act("expel", self.token(), tombstone=f"expel-{self.one()}")

    def rewrite(self) -> Act:
        version = self.rng.choice(("", "", 0, 1, 2, "~0", "~1", "~2"))
        return self.act("rewrite", f"@{self.one()}", self.rng.choice(("", DOWNGRADED, "m")), b"said", version)

    def list(self) -> Act:
        return self.act("list", self.rng.choice((1, 2, 100)), self.rng.randint(0, 1))

    def get(self) -> Act:
        return self.act("get", self.rng.randint(0, 1))

    def put(self) -> Act:
        rng = self.rng
        guards = tuple(self.one() for _ in range(rng.choice((0, 0, 1, 2))))
        words = (
            int(rng.random() < 0.15),
            rng.choice(("", "", "#v", "#v", 0, 1)),
            rng.choice(("#r", "#r", "#r", 0)),
        )
        more = (rng.choice((b"1", b"1 2")), int(rng.random() < 0.2), rng.choice((b"", b"x\xff")))
        named = (word for one in guards for word in (f"@{one}", rng.randint(0, 1)))
        return self.act("put", *words, *more, *named, guards=guards)

    def foreign(self) -> Plain:
        rng = self.rng
        words = rng.choice(
            (
                ("SET", "theirs", "PX", SHORT_MS if self.short else LONG_MS, "NX"),
                ("SET", "theirs", "PX", LONG_MS, "NX"),
                ("SET", "others", "NX"),
                ("SET", "theirs", "PX", LONG_MS),
                ("DEL",),
                ("DEL",),
                ("HSET", "ours", "1"),
                ("FORGET",),
            )
        )
        return Plain(self.queue, words)

    def sleep(self) -> Sleep:
        return Sleep()


def redis_script(seed: int) -> Script:
    """Return the script of this seed."""
    return _Author(seed).script()
