"""A model of a store whose acts are atomic: the script of Redis on the queue of a name, and a few commands.

It takes the words that the script takes and answers what Redis answers: texts as bytes, numbers as they are.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recipes._contract.contenders import DOWNGRADED

__all__ = ["Act", "Acts", "Contender", "Queue"]

READERS = b"held-by-readers"
TOMBSTONE_MS = RECEIPT_MS = 3_600_000
FOREVER = float("inf")


class Contender:
    """A contender as the script notes it; ``till`` is its deadline in milliseconds."""

    __slots__ = ("data", "id", "kind", "mark", "owner", "session", "till", "token", "version")

    def __init__(  # noqa: PLR0917 - as the script notes them
        self, token: int, session: str, one: str, kind: str, till: int, owner: bytes, data: bytes
    ) -> None:
        self.token = token
        self.session = session
        self.id = one
        self.kind = kind
        self.till = till
        self.mark = ""
        self.version = 0
        self.owner = owner
        self.data = data

    @property
    def reads(self) -> bool:
        return self.kind == "R"

    @property
    def alone(self) -> bool:
        return not self.reads and self.mark != DOWNGRADED


class Queue:
    """What there is of one name: its contenders by token, in order; who listens to what; its value."""

    __slots__ = ("data", "held", "ids", "key", "last", "listening", "standing", "version", "written")

    def __init__(self, key: str) -> None:
        self.key = key
        self.standing: dict[int, Contender] = {}
        self.ids: dict[str, int] = {}
        self.last = 0
        self.held: bytes | None = None
        self.listening: defaultdict[str, set[str]] = defaultdict(set)
        self.data: bytes | None = None
        self.version = self.written = 0

    def group(self) -> list[Contender]:
        """Return those that hold by their place: one that is alone, or readers, and who let them in."""
        found: list[Contender] = []
        for one in self.standing.values():
            if found and not one.reads:
                break
            found.append(one)
            if one.alone:
                break
        return found


class Acts:
    """What one server has.

    Attributes:
        now_us: What its clock says.
        ring: Called with a channel and what is published there.
        outlived: The ids of contenders that were dropped because their time was over.
        changed: Called with each key that was written, or has gone, in the end.
    """

    act: type[Act]

    def __init__(self) -> None:
        self.now_us = 0
        self.keys: dict[str, tuple[Any, float]] = {}
        self.queues: dict[str, Queue] = {}
        self.outlived: set[str] = set()
        self.ring: Callable[[str, str], None] = _nobody
        self.changed: Callable[[str], None] = _nobody

    @property
    def now(self) -> int:
        return self.now_us // 1000

    def get(self, key: str) -> Any:
        """Return what a key says; looking at one whose time is over removes it."""
        found, till = self.keys.get(key, (None, FOREVER))
        if till < self.now:
            self.delete(key)
            return None
        return found

    def set(self, key: str, value: Any, ms: float = FOREVER) -> None:
        self.keys[key] = value, self.now + ms
        self.changed(key)

    def delete(self, key: str) -> int:
        if self.keys.pop(key, None) is None:
            return 0
        self.changed(key)
        return 1

    def left(self, key: str) -> int:
        """Return for how many milliseconds a key lasts: -1 for ever, -2 if it is not there."""
        if self.get(key) is None:
            return -2
        till = self.keys[key][1]
        return -1 if till == FOREVER else int(till) - self.now

    def command(self, words: Sequence[Any]) -> Any:  # noqa: PLR0911 - one for each
        """Carry out one plain command."""
        name, key = words[0], words[min(1, len(words) - 1)]
        if name == "SET":
            if "XX" in words and self.get(key) is None:
                return None
            self.set(key, _bytes(words[2]), *(words[-1:] if "PX" in words else ()))
            return b"OK"
        if name == "SETNX":
            if self.get(key) is not None:
                return 0
            self.set(key, _bytes(words[2]))
            return 1
        if name == "GET":
            return self.get(key)
        if name == "PEXPIRE":
            if self.get(key) is None:
                return 0
            self.keys[key] = self.keys[key][0], self.now + words[2]
            return 1
        if name == "INFO":
            return b"redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n"
        if name == "FLUSHALL":
            return self.flush()
        assert name == "DEL", f"{words} should be known"
        return int(self.get(key) is not None) and self.delete(key)

    def run(self, until_us: int, keys: Sequence[str], words: Sequence[Any]) -> Any:
        """Carry out one act of the script; nothing is granted before ``until_us``."""
        return self.act(self, until_us, keys, words).reply(words[0], words[5:])

    def flush(self) -> None:
        """Forget everything."""
        keys = list(self.keys)
        self.keys.clear()
        self.queues.clear()
        for key in keys:
            self.changed(key)


class Act:
    """One run of the script."""

    def __init__(self, acts: Acts, until_us: int, keys: Sequence[str], words: Sequence[Any]) -> None:
        self.acts, self.keys, self.words = acts, keys, words
        _, self.name, self.session, self.bell, self.ttl = words[:5]
        self.key = keys[0]
        found = acts.queues.get(keys[3])
        if found is None:
            found = acts.queues[keys[3]] = Queue(self.key)
        self.queue = found
        self.now = acts.now
        self.starting = until_us - acts.now_us
        self.plain = not self.name.startswith("~")
        self.granted: defaultdict[str, str] = defaultdict(str)
        self.gone: defaultdict[str, str] = defaultdict(str)
        self.foreign: bytes | None = None

    def reply(self, act: str, words: Sequence[Any]) -> Any:
        grants = (
            act in {"join", "see"} or (act == "present" and words[2:]) or (act == "put" and self.keys[7:])
        )
        if self.starting > 0 and grants:
            return [b"starting", -(-self.starting // 1000)]
        if self.plain and act not in ("get", "put"):
            self.load()
        answer = getattr(self, act)(*words)
        for session in {**self.granted, **self.gone}:
            said = self.granted[session] + self.gone[session]
            self.acts.ring(self.bell + session, self.name + said)
        return answer

    def load(self) -> None:
        """See whether K says who holds: it may be another's, or have gone."""
        queue, seen = self.queue, self.acts.get(self.key)
        if queue.held and seen != queue.held and self.starting <= 0:
            for one in self.queue.group():
                self.drop(one)
            queue.held = None
        self.foreign = seen if seen is not None and seen != queue.held else None

    # The parts of which acts are made.

    def tell(self, what: str, said: str) -> None:
        for session in sorted(self.queue.listening.pop(what, ())):
            self.gone[session] += f" {said}"

    def listen(self, what: str) -> None:
        self.queue.listening[what].add(self.session)

    def add(self, one: str, kind: str, owner: bytes, data: bytes) -> Contender:
        queue = self.queue
        token = queue.last = max(queue.last + 1, self.acts.now_us)
        mine = Contender(token, self.session, one, kind, self.now + self.ttl, owner, data)
        queue.standing[token] = mine
        queue.ids[one] = token
        return mine

    def drop(self, one: Contender) -> None:
        del self.queue.standing[one.token]
        self.queue.ids.pop(one.id, None)
        if one.till <= self.now:
            self.acts.outlived.add(one.id)
        self.tell(str(one.token), f"g{one.token}")
        self.tell("q", "q")

    def let_go(self) -> None:
        if self.foreign is None:
            self.acts.delete(self.key)
        self.queue.held = None

    def take_out(self, one: Contender) -> None:
        """Drop one that leaves, or is made to; while the server starts, none follows who says so in K."""
        alone = self.plain and self.queue.held and self.queue.group() == [one]
        self.drop(one)
        if self.starting > 0 and alone:
            self.let_go()

    def in_group(self, one: Contender) -> bool:
        return any(other is one for other in self.queue.group())

    def first(self) -> Contender | None:
        for one in list(self.queue.standing.values()):
            if one.till > self.now:
                return one
            self.drop(one)
        return None

    def say(self, value: bytes, till: int) -> None:
        self.acts.set(self.key, value, max(till - self.now, 1))

    def settle(self, joined: Contender | None = None) -> None:
        """Let K say who holds, and ring those that come to hold."""
        if self.starting > 0:
            return
        queue, head = self.queue, self.first()
        if not self.plain or self.foreign is not None:
            return
        if head is None:
            if queue.held:
                self.let_go()
            return
        value = f"{head.session}/{head.id}".encode() if head.alone else READERS
        if value == queue.held:
            return
        group = queue.group()
        for one in group:
            if one is not joined:
                self.granted[one.session] += f" h{one.token}"
        self.say(value, max(one.till for one in group))
        queue.held = value

    def prolong(self, one: Contender) -> None:
        held = self.queue.held
        if not self.plain or self.foreign is not None or not held or not self.in_group(one):
            return
        self.say(held, one.till if one.alone else max(one.till, self.now + self.acts.left(self.key)))

    def stranger(self) -> bytes:
        return b"-%d" % int(hashlib.sha1(self.foreign or b"").hexdigest()[:12], 16)

    def counting(self, mine: Contender | None, exclusive_only: bool) -> Iterator[Contender]:
        """Go through those ahead that count, nearest first."""
        for one in reversed(self.queue.standing.values()):
            if (mine is None or one.token < mine.token) and not (exclusive_only and one.reads):
                yield one

    def view(self, mine: Contender | None, exclusive_only: bool, reach: int) -> list[Any]:
        while True:
            near = [one for _, one in zip(range(reach), self.counting(mine, exclusive_only), strict=False)]
            dead = [one for one in near if one.till <= self.now]
            if not dead:
                break
            for one in dead:
                self.drop(one)
            self.settle()
        count = sum(1 for _ in self.counting(mine, exclusive_only))
        due = min((one.till - self.now + 1 for one in near), default=-1)
        rows = [self.row(one) for one in near]
        if self.foreign is not None:
            count += 1
            if len(rows) < reach:
                if not rows:
                    due = self.acts.left(self.key)
                rows.append([self.stranger(), b"W", b"", b"", b"", 0])
        return [b"%d" % mine.token if mine else b"", count, due, rows]

    def row(self, one: Contender) -> list[Any]:
        return [
            b"%d" % one.token,
            one.kind.encode(),
            one.session.encode(),
            one.id.encode(),
            one.mark.encode(),
            one.version,
        ]

    def mine(self, token: int | None) -> Contender | None:
        """Return a contender of the session that asks."""
        one = None if token is None else self.queue.standing.get(token)
        return one if one is not None and one.session == self.session else None

    # The acts.

    def join(  # noqa: PLR0917 - the script's
        self,
        one: str,
        kind: str,
        owner: str,
        data: bytes,
        exclusive_only: int,
        reach: int,
        arm: int,
        only_free: Any,
        let_in_by: str,
    ) -> list[Any]:
        if self.acts.get(self.keys[5]) is not None:
            return [b"withdrawn"]
        self.settle()
        queue, token = self.queue, self.queue.ids.get(one)
        if token is not None:
            mine = queue.standing[token]
            mine.till = self.now + self.ttl
        else:
            if only_free != "":
                rows = self.view(None, bool(exclusive_only), reach)[3]
                if len(rows) >= only_free and (let_in_by == "" or rows[0][4] != let_in_by.encode()):
                    return [b"", 0, -1, []]
            mine = self.add(one, kind, owner.encode(), data)
            self.settle(mine)
            self.tell("q", "q")
        seen = self.view(mine, bool(exclusive_only), reach)
        self.prolong(mine)
        for row in seen[3][:arm]:
            if row[2].decode() != self.session and not row[0].startswith(b"-"):
                self.listen(row[0].decode())
        return seen

    def see(self, token: int, exclusive_only: int, reach: int, *watched: int) -> list[Any]:
        self.settle()
        mine = self.mine(token)
        if mine is None or mine.till <= self.now:
            return [b"", 0, -1, []]
        for other in watched:
            if other in self.queue.standing:
                self.listen(str(other))
        seen = self.view(mine, bool(exclusive_only), reach)
        if mine.reads:
            self.prolong(mine)
        return seen

    def present(self, watch: int, token: int, *pairs: Any) -> list[int]:
        self.settle()
        mine = self.mine(token)
        found = [int(mine is not None and mine.till > self.now)]
        for asked, mark in zip(pairs[::2], pairs[1::2], strict=True):
            one = self.queue.standing.get(asked)
            there = one is not None and one.till > self.now and mark in ("*", one.mark)
            if self.foreign is not None and (not watch or b"%d" % asked == self.stranger()):
                there = True
            elif there and watch:
                self.listen(str(asked))
            found.append(int(there))
        if found[0] and mine is not None and mine.reads:
            self.prolong(mine)
        return found

    def touch(self, *asked: str) -> list[int]:
        found = []
        for word in asked:
            one = self.mine(self.queue.ids.get(word[2:]) if word.startswith("i:") else int(word))
            stands = one is not None and one.till > self.now
            if one is not None and stands:
                one.till = self.now + self.ttl
                self.prolong(one)
            found.append(int(stands))
        self.settle()
        return found

    def remove(self, one: str, token: Any, bury: int) -> int:
        if bury:
            self.acts.set(self.keys[5], b"1", TOMBSTONE_MS)
        mine = self.mine(self.queue.ids.get(one) if token == "" else token)
        if mine is not None and mine.id != one:
            mine = None
        if mine is not None:
            self.take_out(mine)
        self.settle()
        return int(mine is not None)

    def expel(self, token: int) -> int:
        if self.foreign is not None and b"%d" % token == self.stranger():
            if self.acts.get(self.keys[5]) is not None:
                return 0
            self.acts.delete(self.key)
            self.acts.set(self.keys[5], b"1", TOMBSTONE_MS)
            return 1
        one = self.queue.standing.get(token)
        if one is not None:
            self.take_out(one)
        self.settle()
        return int(one is not None)

    def rewrite(self, token: int, mark: str, data: bytes, version: Any) -> int | None:
        one = self.mine(token)
        if one is None or one.till <= self.now:
            return None
        if str(version).startswith("~"):
            if int(version[1:]) != one.version:
                return one.version if (one.mark, one.data) == (mark, data) else -one.version
        elif version not in ("", one.version):
            return None
        one.mark, one.data = mark, data
        one.version += 1
        self.tell(str(token), f"c{token}")
        self.tell("q", "q")
        self.settle(one)
        return one.version

    def list(self, most: int, watch: int) -> list[Any]:
        self.settle()
        queue, room = self.queue, most - (self.foreign is not None)
        while self.starting <= 0:
            shown = list(queue.standing.values())[:room]
            dead = [one for one in shown if one.till <= self.now]
            if not dead:
                break
            for one in dead:
                self.drop(one)
            self.settle()
        shown = list(queue.standing.values())[:room]
        rows: list[Any] = [[*self.row(one), one.owner, one.data] for one in shown]
        least = max(self.starting / 1000, 0)
        due = min((int(max(one.till - self.now, least)) + 1 for one in shown), default=-1)
        if self.foreign is not None:
            rows.insert(0, [self.stranger(), b"W", b"", b"", b"", 0, b"", b""])
            left = self.acts.left(self.key)
            due = left if due < 0 or 0 <= left < due else due
        if watch:
            self.listen("q")
        return [rows, due]

    def get(self, watch: int) -> list[Any]:
        if watch:
            self.listen("q")
        return [self.queue.data, b"%d" % self.queue.version]

    def put(  # noqa: PLR0917 - the script's
        self,
        settles: int,
        if_version: Any,
        expected: int,
        receipt: bytes,
        deletes: int,
        data: bytes,
        *guards: int,
    ) -> list[Any]:
        queue, acts = self.queue, self.acts
        there = acts.get(self.keys[6])
        if there == b"":  # the session has ended, and this is a late copy
            return [b"ended"]
        version, said = there or (0, b"")
        guarded = int(all(map(self.guards, self.keys[7:], guards[::2], guards[1::2])))
        fits = settles or (guarded and if_version in ("", queue.version))
        if version != expected or not fits:
            return [0, b"%d" % version, said, queue.data, b"%d" % queue.version, guarded]
        own = max(queue.written + 1, version + 1, acts.now_us)
        acts.set(self.keys[6], (own, receipt), RECEIPT_MS)
        if not settles:
            queue.written = own
            queue.data, queue.version = (None, 0) if deletes else (data, own)
            self.tell("q", "q")
        return [1, b"%d" % own, receipt, queue.data, b"%d" % queue.version, guarded]

    def guards(self, known: str, token: int, unchanged: int) -> bool:
        """Whether a contender that guards a write stands, in a queue of its own, as it has to."""
        queue = self.acts.queues.get(known)
        one = None if queue is None else queue.standing.get(token)
        stands = one is not None and one.session == self.session and one.till > self.now
        return stands and not (unchanged and one.version)


Acts.act = Act


def _bytes(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def _nobody(*said: Any) -> None:
    """Nobody listens."""
