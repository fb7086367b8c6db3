"""Requests that arrive long after they were given up, and what keeps them out."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import pytest

from recipes._contract.operations import Enqueue, Open, Renew, Ticket, Withdraw, Write
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import Post
from tests.simulation.etcd_model import EtcdServer
from tests.simulation.etcd_store import LAYOUT
from tests.simulation.fates import DOUBLED, VERY_LATE
from tests.simulation.run import Schedule, run
from tests.stores.stepping import CONTEXT

GIVEN_UP = 3_000
SESSION = "3e8"


class Steady:
    """One session whose calls are given up one after the other, while etcd has not got them."""

    def __init__(self) -> None:
        self.server = EtcdServer()
        self.protocol = EtcdProtocol("model", LAYOUT, int(SESSION, 16))
        self.carry_out(self.protocol.open(Open(15), CONTEXT))
        self.late: list[Post] = []

    def carry_out(self, steps: Generator[Any, Any, Any]) -> Any:
        """Ask the server all of it; what it calls an error is one."""
        reply: Any = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as done:
                return done.value
            reply = self.server.handle(request.path, request.body)

    def give_up(self, number: int) -> None:
        """Ask for a create that stays under way, and withdraw it."""
        ticket = Ticket("q", "lock", f"{number:08x}-0000-4000-8000-000000000000")
        asking = self.protocol.enqueue(Enqueue(ticket, EXCLUSIVE), CONTEXT)
        self.late.append(asking.send(None))
        asking.close()
        self.carry_out(self.protocol.withdraw(Withdraw(ticket), CONTEXT))

    def contenders(self) -> list[bytes]:
        return [key for key in self.server.keys if b"~session" not in key]

    def tombstones(self) -> int:
        start, end = LAYOUT.tombstones(SESSION)
        return sum(start <= key < end for key in self.server.keys)


def test_under_a_steady_load_of_cancellations_there_are_a_hundred_tombstones_at_most() -> None:
    """However few renewals there are meanwhile; and of all that were given up, not one lands."""
    steady = Steady()
    chance = random.Random(7)
    for number in range(GIVEN_UP):
        steady.give_up(number)
        assert steady.tombstones() <= 100
        if number % 500 == 0:
            steady.carry_out(steady.protocol.renew(Renew((), 5.0), CONTEXT))
        if number % 3 == 0:
            late = steady.late.pop(chance.randrange(len(steady.late)))
            steady.server.handle(late.path, late.body)
            assert not steady.contenders()
    for late in steady.late:
        steady.server.handle(late.path, late.body)
    assert not steady.contenders()


def test_a_call_beside_that_load_gets_in_and_stays() -> None:
    steady = Steady()
    for number in range(0, 10 * GIVEN_UP, 10):
        steady.give_up(number)
        if number % 700 == 0:
            ticket = Ticket("q", "lock", f"{number + 1:08x}-0000-4000-8000-000000000000")
            snapshot = steady.carry_out(steady.protocol.enqueue(Enqueue(ticket, EXCLUSIVE), CONTEXT))
            assert snapshot.mine is not None
            assert len(steady.contenders()) == 1
            assert steady.carry_out(steady.protocol.withdraw(Withdraw(ticket, snapshot.mine), CONTEXT))
    assert not steady.contenders()


def test_a_write_of_what_was_not_there_does_not_land_late_when_that_is_gone_again() -> None:
    """A way doubled it: it was answered, with a no, and its copy arrives when the value was deleted."""
    steady, key = Steady(), "~value/q"
    steady.carry_out(steady.protocol.write(Write(key, b"first", 1), CONTEXT))
    other = EtcdProtocol("model", LAYOUT, 7)
    steady.carry_out(other.open(Open(15), CONTEXT))
    if_none = Write(key, b"second", 1, if_version=0)
    copy = other.write(if_none, CONTEXT).send(None)
    assert not steady.carry_out(other.write(if_none, CONTEXT)).done
    steady.carry_out(steady.protocol.write(Write(key, None, 2), CONTEXT))
    steady.server.handle(copy.path, copy.body)
    assert LAYOUT.value(key) not in steady.server.keys


@pytest.mark.parametrize("seed", range(5))
def test_fault_41_a_request_is_waited_for_until_it_has_arrived(seed: int) -> None:
    """Else a schedule would be over before anything could come of it."""
    verdict = run(Schedule("etcd", seed, fault_at=(20, VERY_LATE), trace=True))
    assert verdict.violation is None
    assert verdict.faults == [VERY_LATE]
    (arrives,) = [line for line in verdict.trace if "arrives very late" in line]
    struck = next(line for line in verdict.trace if "FAULT" in line)
    assert float(arrives.split()[0]) - float(struck.split()[0]) >= 70.0


@pytest.mark.parametrize("seed", range(5))
def test_a_write_that_a_way_has_doubled_arrives_again_and_changes_nothing(seed: int) -> None:
    verdict = run(Schedule("etcd", seed, fault_at=(20, DOUBLED), trace=True, of="values"))
    assert verdict.violation is None
    assert verdict.faults == [DOUBLED]
    (arrives,) = [at for at, line in enumerate(verdict.trace) if "arrives very late" in line]
    assert "wrote" not in verdict.trace[arrives + 1]
    struck = next(line for line in verdict.trace if "FAULT" in line)
    assert float(verdict.trace[arrives].split()[0]) - float(struck.split()[0]) >= 12.0
