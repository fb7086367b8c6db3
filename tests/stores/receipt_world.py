"""Writes of one session to one value, in any order in which a network and threads may bring them about.

A store that carries out an exchange whole, calls that write by the real algorithm, and a tape of numbers that
says what happens next: a request arrives, its answer does, one of the two is lost, a copy arrives late,
another session writes, a guard falls. What the store did is compared with what the calls returned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recipes._contract.operations import Stored, Write, Written
from recipes._contract.protocol import Steps
from recipes.errors import StoreUnavailable
from recipes.stores import receipts as algorithm
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchange, Exchanged, Receipts

__all__ = ["World", "play"]

KEY = "~value/x"
NOTHING = Stored()
MOST_CALLS = 5
MOST_STEPS = 400
"""Far more than any call needs once nothing is lost."""


@dataclass
class Store:
    """One value, and the receipt of one session."""

    versions: int = 0
    value: Stored = NOTHING
    receipt: tuple[int, bytes] = (0, b"")
    guarded: bool = True
    landed: list[int] = field(default_factory=list)

    def carry_out(self, exchange: Exchange) -> Exchanged:
        version, said = self.receipt
        guarded = self.guarded or not exchange.write.guards
        if not Put(exchange).fits(version, self.value.version, guarded=guarded):
            return Exchanged(False, version, said, self.value, guarded)
        self.versions += 1
        self.receipt = self.versions, exchange.receipt
        if not exchange.settles:
            self.landed.append(exchange.write.number)
            self.write(exchange.write.data)
        return Exchanged(True, self.receipt[0], exchange.receipt, self.value)

    def write(self, data: bytes | None) -> None:
        self.versions += 1
        self.value = Stored() if data is None else Stored(data, self.versions)


@dataclass
class Call:
    """One call of a client that writes, and asks again or gives up when an answer is lost."""

    write: Write
    steps: Steps[Any]
    sent: Exchange | None = None
    answer: Exchanged | None = None
    again: bool = False
    settling: bool = False
    came_to: Written | bool | None = None

    def go_on(self, step: Callable[[], Any]) -> None:
        self.answer = None
        try:
            self.sent = step()
        except StopIteration as stop:
            self.sent, self.came_to = None, stop.value


def ask(exchange: Exchange) -> Generator[Any, Any, Exchanged]:
    """Have the world carry it out."""
    found: Exchanged = yield exchange
    return found


class World:
    """What a tape plays in."""

    def __init__(self) -> None:
        self.store = Store()
        self.receipts = Receipts()
        self.calls: list[Call] = []
        self.late: list[Exchange] = []

    # What may happen.

    def choices(self) -> list[Callable[[int], None]]:
        """Return what may happen next; each is told a number by which it may vary."""
        found: list[Callable[[int], None]] = [self.others_write, self.guard_falls]
        if len(self.calls) < MOST_CALLS:
            found += [self.begin] * 3
        if self.late:
            found += [self.copy_arrives] * 2
        for call in self.calls:
            if call.sent is not None:
                step = self.arrive if call.answer is None else self.hear
                found += [partial(step, call)] * 4 + [partial(self.lose, call)] * 2
                if call.write.if_version != 0:  # see copy
                    found += [partial(self.copy, call)]
        return found

    def begin(self, how: int) -> None:
        version = (None, None, 0, self.store.value.version, 10**9)[how % 5]
        data = None if how % 7 == 6 else b"%d" % len(self.calls)
        guards: Any = ("a contender",) if how % 3 == 2 else ()
        write = Write(KEY, data, len(self.calls), version, guards)
        call = Call(write, algorithm.write_once(self.receipts, write, ask, again=False))
        self.calls.append(call)
        call.go_on(lambda: next(call.steps))

    def arrive(self, call: Call, _: int = 0) -> None:
        """Have what was sent arrive."""
        assert call.sent is not None
        call.answer = self.store.carry_out(call.sent)

    def hear(self, call: Call, _: int = 0) -> None:
        """Have its answer arrive."""
        answer = call.answer
        assert answer is not None
        call.go_on(lambda: call.steps.send(answer))
        self.judge(call)

    def lose(self, call: Call, how: int) -> None:
        """Have a call hear nothing; what was sent may arrive later, and it asks again or gives up."""
        if call.answer is None:
            self.copy(call)
        try:
            call.steps.throw(StoreUnavailable("store", "lost"))
        except StoreUnavailable:
            pass
        call.again = True
        call.settling = call.settling or how % 2 == 1
        if call.settling:
            call.steps = algorithm.settle_once(self.receipts, call.write, ask)
        else:
            call.steps = algorithm.write_once(self.receipts, call.write, ask, again=True)
        call.go_on(lambda: next(call.steps))

    def copy(self, call: Call, _: int = 0) -> None:
        """Have a copy of what was sent on its way.

        Of one that expects no value none is made whose first is answered: refused, it might land when the
        value was deleted. No transport sends again what was answered.
        """
        assert call.sent is not None
        self.late.append(call.sent)

    def copy_arrives(self, how: int) -> None:
        self.store.carry_out(self.late.pop(how % len(self.late)))

    def others_write(self, how: int) -> None:
        self.store.write(None if how % 3 == 0 else b"others")

    def guard_falls(self, how: int) -> None:
        self.store.guarded = self.store.guarded and how % 4 != 0

    def end(self) -> None:
        """Have nothing be lost any more, and every copy arrive at last."""
        for _ in range(MOST_STEPS):
            under_way = [call for call in self.calls if call.sent is not None]
            if not under_way:
                break
            for call in under_way:
                (self.arrive if call.answer is None else self.hear)(call)
        else:
            raise AssertionError("every call should come to its end")
        while self.late:
            self.copy_arrives(0)
        for call in self.calls:
            self.judge(call)
        following = Write(KEY, b"", len(self.calls))
        listed = self.receipts.exchange(following, self.receipts.known(KEY)).receipt
        assert listed == b"%d" % following.number, f"{listed!r} lists writes that nobody asks for any more"

    # What has to be.

    def judge(self, call: Call) -> None:
        """Compare what a call returned with what the store has done so far."""
        landed = self.store.landed.count(call.write.number)
        assert landed <= 1, f"{call.write} was done {landed} times"
        match call.came_to:
            case None:
                pass
            case bool():
                assert call.came_to == bool(landed), f"{call.write}: settled as {call.came_to}"
            case Written(done=done, stored=stored, guarded=guarded):
                assert done == bool(landed), f"{call.write}: {call.came_to}"
                assert done or _is_reason(call.write, stored, guarded=guarded), (
                    f"{call.write}: {call.came_to}"
                )
                assert not (done and stored) or stored.data == call.write.data


def _is_reason(write: Write, stored: Stored | None, *, guarded: bool) -> bool:
    """Whether it is said why a write was not done."""
    return (not guarded and bool(write.guards)) or (
        stored is not None and write.if_version is not None and write.if_version != stored.version
    )


def play(tape: Sequence[int]) -> World:
    """Have happen what a tape says, and then all that is left; raises ``AssertionError`` if it is wrong."""
    world = World()
    for number in tape:
        choices = world.choices()
        choices[number % len(choices)](number // len(choices))
    world.end()
    return world
