"""A queue that is listed with a watch while it changes: a scene of its own, on any model.

Observers list the queue again whenever they are notified. When nothing is under way any more, and
without that any time passes, what each of them listed last is what stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from recipes._contract.contenders import Contender
from recipes._contract.operations import Enqueue, Entry, List, Listing, Program, Rewrite, Ticket, Withdraw
from recipes._contract.rule import Rule
from recipes._programs.steps import Attach, Wait
from tests.simulation.clients import Client
from tests.simulation.moving import Task
from tests.simulation.world import World

__all__ = ["QUEUE", "Scene"]

QUEUE = "~group/q"
KIND = Rule("M7")
TTL_S = 1_000.0  # nothing ends by itself
MOST = 99
Shown = tuple[Contender, ...]


class Scene:
    """Three clients: two of them observe, two of them join, rewrite and leave; faults strike.

    Args:
        seed: Decides all.
        store: Makes the model of the store.
        faults: What may strike a client's connection.

    Attributes:
        shown: What each observer listed, every time.
        known: What each had listed last when nothing was under way any more.
        events: What the observers were notified of.
    """

    def __init__(
        self, seed: int, store: Callable[[World], Any], faults: tuple[Callable[[Any], None], ...]
    ) -> None:
        self.world = World(seed, pct=seed % 4 == 3)
        self.store = store(self.world)
        self.faults = faults
        self.shown: list[list[Shown]] = []
        self.known: list[Shown] = []
        self.events: list[Any] = []
        oracle = SimpleNamespace(heard=lambda event, mailbox: None, settles=lambda client, job: None, left=0)
        self.clients = [
            Client(self.world, number, self.store, offset=0.0, rate=1.0, ttl_s=TTL_S) for number in range(3)
        ]
        for client in self.clients:
            client.oracle = oracle

    def play(self) -> Shown:
        """Run it until nothing is under way; returns what stands in the queue then."""
        world, (first, second, third) = self.world, self.clients
        for observer in (first, first, second):
            self.shown.append([])
            self._start(observer, self._observe(self.shown[-1]), daemon=True)
        for client in (second, third):
            self._start(client, self._change(client))
        most = 10 if self.faults else 1
        strikes = sorted(world.rng.randrange(10, 80) for _ in range(world.rng.randrange(most)))
        while world.unfinished:
            if strikes and world.requests > strikes[0]:
                del strikes[0]
                world.rng.choice(self.faults)(world.rng.choice(self.clients).connections[-1])
            assert world.step() or world.advance()
        self.store.fated = None
        while any(task.asked or not task.patient for task in world.tasks):  # what was lost is asked again
            assert world.step() or world.advance()
        while world.step():  # no time passes: nothing is read any more for want of an event
            pass
        self.known = [shown[-1] for shown in self.shown]
        stands: list[Listing] = []
        self._start(third, self._look(stands))
        while not stands:
            assert world.step() or world.advance()
        return stands[0].contenders

    def _start(self, client: Client, program: Program[None], *, daemon: bool = False) -> None:
        task = Task(client, client.name, (_ for _ in ()), daemon=daemon)
        task.steps = client.run(task, client.runtime.begin(task, None), program)
        self.world.start(task)

    def _observe(self, shown: list[Shown]) -> Program[None]:
        yield from Attach()
        while True:
            listing = yield from List(QUEUE, MOST, watch=True)
            shown.append(listing.contenders)
            self.events.append((yield from Wait()))

    def _look(self, stands: list[Listing]) -> Program[None]:
        yield from Attach()
        stands.append((yield from List(QUEUE, MOST)))

    def _change(self, client: Client) -> Program[None]:
        yield from Attach()
        rng, mine = self.world.rng, list[Entry]()
        versions: dict[str, int] = {}
        for number in range(rng.randrange(3, 12)):
            do = rng.random()
            if not mine or do < 0.3:
                snapshot = yield from Enqueue(Ticket(QUEUE, KIND.kind, client.new_id(), data=b"new"), KIND)
                assert snapshot.mine is not None
                mine.append(snapshot.mine)
                versions[snapshot.mine.ref] = 0
            elif do < 0.7:
                entry = rng.choice(mine)
                versions[entry.ref] = yield from self._rewrite(entry, b"%d" % number, versions[entry.ref])
            else:
                entry = mine.pop(rng.randrange(len(mine)))
                assert (yield from Withdraw(entry.ticket, entry))

    def _rewrite(self, entry: Entry, data: bytes, version: int) -> Program[int]:
        """Rewrite it by its version, or whatever that is; returns the one it has then."""
        if self.world.rng.random() < 0.5:
            written = yield from Rewrite(entry, "", data)
            assert written is not None
            assert written > version
            return written
        written = yield from Rewrite(entry, "", data, version)
        if written is None:  # an answer was lost: what was asked first was done
            listing = yield from List(QUEUE, MOST)
            (now,) = (one for one in listing.contenders if one.ref == entry.ref)
            assert (now.data, now.version) == (data, version + 1)
        return version + 1
