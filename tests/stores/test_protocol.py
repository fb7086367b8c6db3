from __future__ import annotations

from typing import Any

import pytest

from recipes._contract import operations as ops
from recipes._contract.operations import Entry, StoreOp, Ticket
from recipes._contract.protocol import RequestContext, StoreProtocol
from recipes._programs import steps
from recipes._rules.exclusive import EXCLUSIVE
from tests.stores.stepping import AGAIN, CONTEXT, feed

TICKET = Ticket("x", "lock", "id")
ENTRY = Entry(TICKET, "ref", 1)
OPS: list[StoreOp[Any]] = [
    ops.Open(15.0),
    ops.Renew((), 1.0),
    ops.End(),
    ops.Enqueue(TICKET, EXCLUSIVE),
    ops.Probe(TICKET, EXCLUSIVE),
    ops.Watch(ENTRY, ()),
    ops.Look(ENTRY, EXCLUSIVE, ()),
    ops.Check(ENTRY),
    ops.Confirm(ENTRY, EXCLUSIVE),
    ops.Withdraw(TICKET),
    ops.Rewrite(ENTRY, "mark"),
    ops.List("x", 1),
    ops.Queues(1),
    ops.Evict("x", "x/1", 1),
    ops.Read("x"),
    ops.Write("x", b"", 1),
    ops.Settle(ops.Write("x", b"", 1)),
]


def method_of(op: Any) -> str:
    """Return the method that carries out an operation; ``list`` would hide Python's."""
    name = type(op).__name__.lower()
    return "listing" if name == "list" else name


class Echo(StoreProtocol):
    """Answers each operation with the method's name, and what it was given."""

    def _echo(self, name: str) -> Any:
        def method(op: Any, context: RequestContext) -> Any:
            return name, op, context

        return method

    enqueue = probe = watch = look = check = withdraw = rewrite = lambda self, op, context: None
    open = renew = end = listing = queues = evict = read = write = settle = confirm = enqueue

    def __init__(self) -> None:
        for op in OPS:
            name = method_of(op)
            setattr(self, name, self._echo(name))


@pytest.mark.parametrize("op", OPS, ids=lambda op: type(op).__name__)
def test_every_operation_has_its_method(op: Any) -> None:
    for context in (CONTEXT, AGAIN):
        assert Echo().start(op, context) == (method_of(op), op, context)


def test_these_are_all_operations_of_a_store() -> None:
    kinds = StoreOp.__subclasses__()  # with slots, each is there twice
    names = {kind.__name__ for kind in kinds if kind.__module__.startswith("recipes.")}
    assert {type(op).__name__ for op in OPS} == names


def test_a_grant_is_confirmed_as_it_is_unless_a_store_says_otherwise() -> None:
    asked = feed(StoreProtocol.confirm(Echo(), ops.Confirm(ENTRY, EXCLUSIVE), CONTEXT))
    assert (asked, asked.result) == ([], ops.Snapshot(ENTRY, (), complete=True, position=0))


def test_anything_else_should_not_come() -> None:
    with pytest.raises(AssertionError, match="should be an operation of a store"):
        Echo().start(StoreOp(), CONTEXT)


def test_the_generator_of_an_operation_yields_it_and_returns_what_is_sent() -> None:
    for op in [*OPS, steps.Now(), steps.Attach(), steps.Wait()]:
        asked = iter(op)
        assert next(asked) is op
        with pytest.raises(StopIteration) as stop:
            asked.send("result")  # type: ignore[attr-defined]
        assert stop.value.value == "result"
