"""Random scripts for ZooKeeper: what the package's protocol asks, in every mixture.

Paths are below a node of the script's own. ``#7`` is the node that step 7 made (``#7.1``: the
second part of its batch), whose number is known only then.
"""

from __future__ import annotations

import random
from typing import Any

from integration.differential.script import Forget, Script, Step
from recipes._contract.connection import Batch, Request
from recipes.stores.zookeeper.requests import (
    Check,
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    SetData,
    Sync,
)

__all__ = ["CONNECTIONS", "zookeeper_script"]

CONNECTIONS = 3
TIMEOUT_S = 20.0
PARENTS = ("", "/a", "/b", "/a/x")
NODES = ("/a", "/b", "/c", "/a/x", "/a/y", "/b/x", "/a/x/z")
DATA = (b"", b"", None, b"1", b"downgraded")
VERSIONS = (-1, -1, -1, 0, 0, 1, 2)


class _Author:
    """Writes one script."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"zookeeper {seed}")
        self.boxes = 0
        self.steps: list[Step] = []
        self.likely: list[str] = []
        """Nodes that are probably there."""
        self.part: int | None = None

    def script(self) -> Script:
        rng = self.rng
        self.steps += [Step(connection, Connect(TIMEOUT_S)) for connection in range(CONNECTIONS)]
        self.likely += rng.choice(((), ("/a",), ("/a", "/b"), ("/a", "/b", "/a/x")))
        self.steps += [Step(0, Create(path)) for path in ("", *self.likely)]
        length = rng.randint(20, 37)
        anew = None
        if rng.random() < 0.2:
            length = min(length, 30)
            anew = rng.randint(8, length - 1)
        while len(self.steps) < length:
            if len(self.steps) == anew:
                self.steps += self.anew()
            self.steps.append(Step(rng.randrange(CONNECTIONS), self.request()))
        # one session ends, and the others see its nodes go
        last = rng.sample(range(CONNECTIONS), CONNECTIONS)
        self.steps += [
            Step(last[0], Close()),
            *(Step(connection, Children(rng.choice(("", "/a")))) for connection in last[1:]),
        ]
        return Script(self.seed, tuple(self.steps))

    def anew(self) -> list[Step]:
        """Make a parent, use it up, and make it again: its numbers start again too."""
        first = f"#{len(self.steps) + 1}"
        requests = (
            Create("/p"),
            Create("/p/n-", sequence=True),
            Delete("/p"),
            Delete(first),
            Delete("/p"),
            Create("/p"),
            Create("/p/n-", sequence=True),
        )
        return [Step(self.rng.randrange(CONNECTIONS), request) for request in requests]

    def request(self) -> Any:
        rng = self.rng
        self.part = None
        chance = rng.random()
        if chance < 0.2:
            parts: list[Request[Any]] = []
            for number in range(rng.randint(2, 4)):
                self.part = number
                part = self.single()
                if not isinstance(part, Get) or not any(_same_arming(part, other) for other in parts):
                    parts.append(part)
            return Batch(tuple(parts))
        if chance < 0.24:
            return Forget(f"m{rng.randint(1, max(1, self.boxes))}")
        return Close() if chance < 0.25 else self.single()

    def single(self) -> Request[Any]:
        kinds = {
            "create": 26,
            "get": 26,
            "delete": 14,
            "set": 9,
            "children": 10,
            "exists": 9,
            "sync": 4,
            "multi": 14,
        }
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        made: Request[Any] = getattr(self, kind)()
        return made

    def create(self) -> Create:
        rng = self.rng
        ephemeral, data = rng.random() < 0.5, rng.choice(DATA)
        if rng.random() < 0.45:
            number = len(self.steps) if self.part is None else f"{len(self.steps)}.{self.part}"
            path = f"{self.parent()}/{rng.choice(('n-', 'n-', 'm-'))}"
            if self.part is None:  # in a batch it is not known until the batch is over
                self.likely.append(f"#{number}")
            return Create(path, data, ephemeral, sequence=True)
        path = rng.choice(NODES)
        self.likely.append(path)
        return Create(path, data, ephemeral)

    def parent(self) -> str:
        """A node to have children."""
        there = [path for path in PARENTS if not path or path in self.likely]
        return self.rng.choice(there if self.rng.random() < 0.85 else PARENTS)

    def node(self) -> str:
        """Any node; mostly one that is there."""
        if self.likely and self.rng.random() < 0.8:
            return self.rng.choice(self.likely[-6:])
        return self.rng.choice(NODES)

    def get(self) -> Get:
        if self.rng.random() < 0.25:
            return Get(self.node())
        if self.rng.random() < 0.6 or not self.boxes:
            self.boxes += 1
        mailbox: Any = f"m{self.rng.randint(max(1, self.boxes - 3), self.boxes)}"
        return Get(self.node(), mailbox)

    def delete(self) -> Delete:
        path, version = self.node(), self.rng.choice(VERSIONS)
        if version <= 0:
            self.likely = [other for other in self.likely if other != path]
        return Delete(path, version)

    def set(self) -> SetData:
        return SetData(self.node(), self.rng.choice(DATA), self.rng.choice(VERSIONS))

    def children(self) -> Children:
        return Children(self.rng.choice((self.parent(), self.parent(), self.node())))

    def exists(self) -> Exists:
        return Exists(self.node())

    def multi(self) -> Multi:
        """Several writes in one step; mostly of few nodes, so that one meets what another did."""
        rng = self.rng
        near = rng.sample(NODES, 2)
        parts: list[Any] = []
        for _ in range(rng.randint(1, 4)):
            path = rng.choice(near) if rng.random() < 0.6 else self.node()
            data, version = rng.choice(DATA), rng.choice(VERSIONS)
            parts.append(
                rng.choice(
                    (
                        Create(path, data, rng.random() < 0.3, sequence=rng.random() < 0.1),
                        SetData(path, data, version),
                        Check(path, version),
                        Delete(path, version),
                    )
                )
            )
        return Multi(tuple(parts))

    def sync(self) -> Sync:
        return Sync(self.rng.choice(("", "/a", "/nowhere")))


def _same_arming(part: Get, other: Request[Any]) -> bool:
    """Say whether a mailbox would be armed twice for one node in one batch; see README."""
    return isinstance(other, Get) and (other.path, other.mailbox) == (part.path, part.mailbox)


def zookeeper_script(seed: int) -> Script:
    """Return the script that ``seed`` stands for."""
    return _Author(seed).script()
