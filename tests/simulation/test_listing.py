"""A queue that is listed with a watch while it changes: the last listing shows how it came to be."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from recipes._contract.operations import Enqueue, List, Place, Program, Rewrite, Spot, Withdraw
from recipes._contract.rule import Order
from recipes._contract.wakeups import Changed, Disturbed
from recipes._programs.steps import Attach, Wait
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Children, Exists, Get
from tests.simulation.bugs import swap
from tests.simulation.clients import Client
from tests.simulation.moving import Task
from tests.simulation.world import World
from tests.simulation.zookeeper_model import ZooKeeperStore

QUEUE = "~group/q"
KIND = Order("M7")
TTL_S = 1_000.0  # nothing ends by itself
SEEDS = 150
Shown = list[tuple[str, bytes, int]]


class Scene:
    """Three clients: one observes, the others join, rewrite and leave; connections break.

    Attributes:
        shown: What each listing showed: reference, data and version of each contender.
        events: What the observer was notified of.
    """

    def __init__(self, seed: int, *, kinds_only: bool = False) -> None:
        self.world = World(seed, pct=seed % 4 == 3)
        self.store = ZooKeeperStore(self.world)
        self.shown: list[Shown] = []
        self.events: list[Any] = []
        self.kinds_only = kinds_only
        oracle = SimpleNamespace(heard=lambda event, mailbox: None, left=0)
        self.clients = [
            Client(self.world, number, self.store, offset=0.0, rate=1.0, ttl_s=TTL_S) for number in range(3)
        ]
        for client in self.clients:
            client.oracle = oracle

    def play(self) -> Shown:
        """Run it until nothing is under way; returns what stands in the queue then."""
        world, (observer, *others) = self.world, self.clients
        self._start(observer, self._observe(), daemon=True)
        for client in others:
            self._start(client, self._change(client))
        breaks = sorted(world.rng.randrange(5, 60) for _ in range(world.rng.randrange(5)))
        while world.unfinished or any(task.asked or not task.patient for task in world.tasks):
            if breaks and world.requests > breaks[0]:
                del breaks[0]
                world.rng.choice(self.clients).links[-1].break_()
            if not world.step():
                world.advance()
        while world.step():  # no time passes: nothing is read any more for want of an event
            pass
        tree, node = self.store.leader.tree, f"/app/{QUEUE}"
        there = [(path, tree[path]) for path in tree if path.startswith(f"{node}/")]
        return sorted((path, one.data.rpartition(b"\n")[2], one.stat.version) for path, one in there)

    def _start(self, client: Client, program: Program[None], *, daemon: bool = False) -> None:
        task = Task(client, client.name, (_ for _ in ()), daemon=daemon)
        task.steps = client.run(task, client.runtime.begin(task, None), program)
        self.world.start(task)

    def _observe(self) -> Program[None]:
        yield from Attach()
        while True:
            listing = yield from List(QUEUE, 99, watch=True, kinds_only=self.kinds_only)
            self.shown.append(sorted((one.ref, one.data, one.version) for one in listing.contenders))
            self.events.append((yield from Wait()))

    def _change(self, client: Client) -> Program[None]:
        yield from Attach()
        rng, mine = self.world.rng, list[Place]()
        for number in range(rng.randrange(3, 12)):
            do = rng.random()
            if not mine or do < 0.3:
                view = yield from Enqueue(Spot(QUEUE, KIND.kind, client.new_id(), data=b"new"), KIND)
                assert view.mine is not None
                mine.append(view.mine)
            elif do < 0.7:
                assert (yield from Rewrite(rng.choice(mine), "", b"%d" % number)) is not None
            else:
                place = mine.pop(rng.randrange(len(mine)))
                assert (yield from Withdraw(place.spot, place))


def test_the_last_listing_shows_what_stands() -> None:
    listings = disturbed = 0
    for seed in range(SEEDS):
        scene = Scene(seed)
        stands = scene.play()
        assert scene.shown[-1] == stands, seed
        assert set(scene.events) <= {Changed(QUEUE), Disturbed(), None}
        listings += len(scene.shown)
        disturbed += Disturbed() in scene.events
    assert listings > 5 * SEEDS
    assert disturbed > SEEDS / 10


def test_kinds_alone_show_who_stands() -> None:
    for seed in range(SEEDS):
        scene = Scene(seed, kinds_only=True)
        stands = scene.play()
        assert [ref for ref, _, _ in scene.shown[-1]] == [ref for ref, _, _ in stands], seed


@pytest.mark.parametrize("kind", [Children, Get, Exists])
def test_a_watch_that_is_missing_is_noticed(kind: type[Any]) -> None:
    def together(self: Any, requests: tuple[Any, ...]) -> Generator[Any, Any, Any]:
        return (
            yield from original(self, tuple(kind(one.path) if type(one) is kind else one for one in requests))
        )

    original = ZooKeeperProtocol._together
    (patch,) = swap(ZooKeeperProtocol, "_together", together)
    with patch:
        scenes = map(Scene, range(SEEDS))
        assert any(scene.play() != scene.shown[-1] for scene in scenes)
