"""A root inside of another root: what its clients' sessions and other recipes keep stands in no queue."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.operations import (
    Enqueue,
    Evict,
    List,
    Listing,
    Open,
    Probe,
    Queues,
    Snapshot,
    Ticket,
    Withdraw,
)
from recipes._contract.rule import Rule
from recipes._rules.exclusive import EVERYBODY, EXCLUSIVE, WRITER
from recipes._rules.readwrite import SHARED
from recipes.stores.etcd.codec import number, put, txn
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from tests.simulation.etcd_model import EtcdServer
from tests.stores.stepping import AGAIN, CONTEXT

FIRST, SECOND, THIRD = (f"{n}0000000-0000-4000-8000-000000000000" for n in "123")
RULES = (EXCLUSIVE, WRITER, SHARED, EVERYBODY)


@pytest.fixture
def server() -> EtcdServer:
    """Return a model of etcd that knows of a client of ``etcd://h/app``, which has withdrawn an attempt."""
    server = EtcdServer()
    inside = EtcdProtocol("etcd://h/app", Layout("app"), 7)
    run(server, inside.open(Open(15.0), CONTEXT))
    given_up = inside.enqueue(Enqueue(Ticket("x", "lock", THIRD), EXCLUSIVE), CONTEXT)
    next(given_up)
    given_up.close()
    run(server, inside.withdraw(Withdraw(Ticket("x", "lock", THIRD)), AGAIN))
    recipe = put(f"app/~recipe/x/W-7-{THIRD}".encode(), b"", 7)  # as another recipe would have it
    server.handle("/kv/txn", txn(then=[recipe]))
    assert len(server.keys) == 3
    return server


@pytest.fixture
def outside(server: EtcdServer) -> EtcdProtocol:
    """Return a client of ``etcd://h``."""
    outside = EtcdProtocol("etcd://h", Layout(""), 9)
    run(server, outside.open(Open(15.0), CONTEXT))
    return outside


def run(server: EtcdServer, steps: Generator[Any, Any, Any]) -> Any:
    """Run an operation to its end, on the model."""
    try:
        request = next(steps)
        while True:
            parts = request.parts if isinstance(request, Batch) else (request,)
            replies = tuple(server.handle(part.path, part.body) for part in parts)
            request = steps.send(replies if isinstance(request, Batch) else replies[0])
    except StopIteration as stop:
        return stop.value


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}{rule.depth}")
def test_they_are_not_counted_when_one_joins(server: EtcdServer, outside: EtcdProtocol, rule: Rule) -> None:
    snapshot = run(server, outside.enqueue(Enqueue(Ticket("app", rule.kind, FIRST), rule), CONTEXT))
    assert (snapshot.ahead, snapshot.position, snapshot.complete) == ((), 0, True)
    behind = run(server, outside.enqueue(Enqueue(Ticket("app", "lock", SECOND), EXCLUSIVE), CONTEXT))
    assert [one.id for one in behind.ahead] == [FIRST]
    assert behind.position == 1
    assert outside.noticed() == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}{rule.depth}")
def test_they_are_in_the_way_of_no_try(server: EtcdServer, outside: EtcdProtocol, rule: Rule) -> None:
    snapshot = run(server, outside.probe(Probe(Ticket("app", rule.kind, FIRST), rule), CONTEXT))
    assert isinstance(snapshot, Snapshot)
    assert snapshot.position == 0


def test_they_are_no_queue_and_in_none(server: EtcdServer, outside: EtcdProtocol) -> None:
    assert run(server, outside.queues(Queues(10), CONTEXT)) == ()
    assert run(server, outside.listing(List("app", 10), CONTEXT)) == Listing(())
    run(server, outside.enqueue(Enqueue(Ticket("app", "lock", FIRST), EXCLUSIVE), CONTEXT))
    assert run(server, outside.queues(Queues(10), CONTEXT)) == ("app",)
    run(server, outside.enqueue(Enqueue(Ticket("app", "lock", SECOND), EXCLUSIVE), CONTEXT))
    assert run(server, outside.queues(Queues(10), CONTEXT)) == ("app",)
    run(server, outside.withdraw(Withdraw(Ticket("app", "lock", SECOND)), CONTEXT))
    (mine,) = run(server, outside.listing(List("app", 10), CONTEXT)).contenders
    assert mine.id == FIRST
    assert run(server, outside.evict(Evict("app", mine.ref, mine.token), CONTEXT))
    assert len([key for key in server.keys if not key.startswith(b"~session/9")]) == 3, "those inside stay"


def test_gos_mutex_counts_no_session(server: EtcdServer) -> None:
    """It asks for everything below the name, and waits for what was created before its own key."""
    del server.keys[f"app/~recipe/x/W-7-{THIRD}".encode()]
    everything = {"key": b"app/", "range_end": b"app0", "count_only": True}
    assert number(server.handle("/kv/range", everything).get("count")) == 0
