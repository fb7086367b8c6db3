"""Where clients hold locks, and what happens there: one server, a master with replicas, a cluster."""

from __future__ import annotations

import contextlib
import random
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import redis

from integration.faults.looking import hold_fault
from integration.harness.hub import Hub
from integration.redis_faults.nodes import Kept, Sentinel, becomes, found

__all__ = ["Cluster", "One", "Place", "Trio"]

DOWN_MS = 600
FAILOVER_MS = 2000
PROMOTED_S = 60.0


class Place(ABC):
    """Servers; a context manager starts and closes them.

    Attributes:
        done: What was done to them, and how often.
        replicas: How many replicas a master has.
    """

    replicas = 0

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._open = contextlib.ExitStack()

    @abstractmethod
    def url(self, prefix: str) -> str:
        """Return the URL of a client."""

    @property
    @abstractmethod
    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        """What can happen, by name; all is well again after each."""

    @abstractmethod
    def version(self) -> str:
        """Return the version that the servers say they are."""

    def strike(self, chance: random.Random) -> str:
        """Have one of the faults happen, and return its name."""
        name = chance.choice(list(self.faults))
        self.faults[name](chance)
        self.done[name] += 1
        return name

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self._open.close)
            self.start()
            undo.pop_all()
        return self

    @abstractmethod
    def start(self) -> None:
        """Start all servers."""

    def __exit__(self, *_: object) -> None:
        self._open.close()


class One(Place):
    """One server, killed and started again: without data, with all of them, with those of a while ago."""

    def start(self) -> None:
        self.server = self._open.enter_context(Kept())
        self._old = self.server.snapshot()

    def url(self, prefix: str) -> str:
        return f"redis://{self.server.address}/0/{prefix}"

    def version(self) -> str:
        return self.server.version()

    @property
    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        return {"empty": self._empty, "append-only file": self._appended, "snapshot": self._snapshot}

    def _kill(self, chance: random.Random) -> None:
        self.server.kill()
        hold_fault(chance.choice([0.0, chance.uniform(0, 1.0)]))

    def _empty(self, chance: random.Random) -> None:
        self._kill(chance)
        self.server.wipe()
        self.server.start()

    def _appended(self, chance: random.Random) -> None:
        self._kill(chance)
        self.server.start()

    def _snapshot(self, chance: random.Random) -> None:
        self._kill(chance)
        self.server.start_from(self._old)
        hold_fault(chance.uniform(0, 0.3))
        self._old = self.server.snapshot()


class Replicated(Place):
    """Masters and replicas in networks of their own, so that some can be cut off from the others."""

    size: int

    def start(self) -> None:
        self.hub = self._open.enter_context(Hub(self.size))
        self.nodes: list[Kept] = [self._at(place, self._node(place)) for place in range(1, self.size + 1)]

    def _at(self, place: int, server: Any) -> Any:
        server.host, server.namespace = self.hub.address(place), self.hub.namespace(place)
        self._open.callback(server.close)
        return server

    @abstractmethod
    def _node(self, place: int) -> Kept:
        """Return the server of that place, not yet started."""

    @abstractmethod
    def _victim(self, chance: random.Random) -> Kept:
        """Return a master."""

    @abstractmethod
    def _replaced(self, old: Kept) -> bool:
        """Whether another is the master instead of ``old``."""

    @abstractmethod
    def _settled(self) -> bool:
        """Whether each master has all its replicas."""

    def version(self) -> str:
        return self.nodes[0].version()

    @property
    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        return {
            "killed": self._killed,
            "paused": self._paused,
            "cut off": self._cut_off,
            "cut off and killed": self._behind,
        }

    def _killed(self, chance: random.Random) -> None:
        old = self._victim(chance)
        old.kill()
        self._wait_replaced(old)
        self._bring_back(old)
        self._wait_settled()

    def _bring_back(self, old: Kept) -> None:
        """Start what was killed, as its operator does."""
        old.start()

    def _paused(self, chance: random.Random) -> None:
        """Stop the master; once another took over, the old one goes on until it hears of that."""
        old = self._victim(chance)
        old.pause()
        try:
            self._wait_replaced(old)
            hold_fault(chance.uniform(0, 0.5))
        finally:
            old.resume()
        self._wait_settled()

    def _cut_off(self, chance: random.Random) -> None:
        """Cut the master off from all other servers, not from its clients, which it goes on serving."""
        old = self._victim(chance)
        self.cut_off(old)
        try:
            self._wait_replaced(old)
            hold_fault(chance.uniform(0, 2.0))
        finally:
            self.hub.heal()
        self._wait_settled()

    def _behind(self, chance: random.Random) -> None:
        """Kill the master when its replicas lack its last writes."""
        old = self._victim(chance)
        self.cut_off(old)
        try:
            hold_fault(chance.uniform(0, DOWN_MS / 1000))
            old.kill()
        finally:
            self.hub.heal()
        self._wait_replaced(old)
        self._bring_back(old)
        self._wait_settled()

    def cut_off(self, node: Kept) -> None:
        """Cut a server off from all others, until the hub is healed."""
        place = self.nodes.index(node) + 1
        for other in range(1, self.size + 1):
            if other != place:
                self.hub.cut(place, other)

    def _wait_replaced(self, old: Kept) -> None:
        becomes("another should be the master", lambda: self._replaced(old), PROMOTED_S)

    def _wait_settled(self) -> None:
        becomes("each master should have its replicas", self._settled, PROMOTED_S)


class Trio(Replicated):
    """A master with two replicas, and three sentinels.

    Attributes:
        down_ms: For how long a server is silent before sentinels take it for dead.
    """

    size = 3
    replicas = 2
    down_ms = DOWN_MS

    def start(self) -> None:
        super().start()
        first = self.nodes[0]
        first.start()
        for node in self.nodes[1:]:
            node.settings["replicaof"] = f"{first.host} {first.port}"
            node.start()
        self.sentinels = [
            self._at(place, Sentinel(first, 2, down_ms=self.down_ms, failover_ms=FAILOVER_MS)).start()
            for place in range(1, self.size + 1)
        ]
        self._wait_settled()
        becomes("the sentinels should know each other", self._know_each_other)
        for node in self.nodes:  # from now on Sentinel says who follows whom
            node.settings.pop("replicaof", None)

    def _node(self, place: int) -> Kept:
        return Kept(f"redis-{place}", repl_diskless_sync_delay=0, repl_timeout=5)

    def _know_each_other(self) -> bool:
        said = [one.ask("INFO", "sentinel")["master0"] for one in self.sentinels]
        return all(one["sentinels"] == 3 and one["slaves"] == 2 for one in said)

    def url(self, prefix: str) -> str:
        hosts = ",".join(one.address for one in self.sentinels)
        return f"redis+sentinel://{hosts}/mymaster/0/{prefix}"

    def master(self) -> Kept | None:
        """Return the one that most sentinels say, if it says so too."""
        named = self._named()
        return named if named is not None and named.master() else None

    def _named(self) -> Kept | None:
        """Return the one that most sentinels say; it is not asked, as it may stand still."""
        says: Counter[tuple[str, int]] = Counter()
        for one in self.sentinels:
            with contextlib.suppress(redis.RedisError):
                says[one.says()] += 1
        for address, count in says.most_common(1):
            named = next(node for node in self.nodes if (node.host, node.port) == address)
            return named if count > 1 else None
        return None

    def leading(self, instead_of: Kept | None = None) -> Kept:
        """Wait until there is a master, another than that if one is named, and return it."""

        def look() -> Kept | None:
            master = self.master()
            return None if master is instead_of else master

        return found("most sentinels should say who is the master", look, PROMOTED_S)

    def _victim(self, chance: random.Random) -> Kept:
        return self.leading()

    def _replaced(self, old: Kept) -> bool:
        named = self._named()
        return named not in (None, old) and named.master()

    def _bring_back(self, old: Kept) -> None:
        """Start it as a replica: Sentinel leaves one that comes back as a master alone for 8 s."""
        master = self.leading(instead_of=old)
        old.settings["replicaof"] = f"{master.host} {master.port}"
        old.start()
        del old.settings["replicaof"]

    def _settled(self) -> bool:
        master = self.master()
        return master is not None and all(
            node.follows(master.port) for node in self.nodes if node is not master
        )


class Cluster(Replicated):
    """Three masters with a replica each."""

    size = 6
    replicas = 1

    def start(self) -> None:
        super().start()
        for node in self.nodes:
            node.start()
        addresses = [node.address for node in self.nodes]
        self._cli("--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes")
        self._wait_settled()

    def _node(self, place: int) -> Kept:
        return Kept(
            f"redis-{place}",
            cluster_enabled="yes",
            cluster_node_timeout=2 * DOWN_MS,
            cluster_replica_validity_factor=0,
            cluster_allow_replica_migration="no",
            repl_diskless_sync_delay=0,
            repl_timeout=5,
        )

    def _cli(self, *words: str) -> None:
        command = [str(self.nodes[0].binary.with_name("redis-cli")), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def url(self, prefix: str) -> str:
        hosts = ",".join(one.address for one in self.nodes)
        return f"redis+cluster://{hosts}/{prefix}"

    def _slots(self, asked: Kept) -> dict[tuple[int, int], list[tuple[str, int]]]:
        """Return by the range of slots where its master and its replicas are, as a node sees it."""
        return {
            (first, last): [(one[0], one[1]) for one in those]
            for first, last, *those in asked.ask("CLUSTER", "SLOTS")
        }

    def _seen_by(self, node: Kept) -> list[list[Kept]] | None:
        at = {(one.host, one.port): one for one in self.nodes}
        try:
            if "cluster_state:ok" not in node.ask("CLUSTER", "INFO"):
                return None
            return [[at[one] for one in those] for those in self._slots(node).values()]
        except redis.RedisError:
            return None

    def _victim(self, chance: random.Random) -> Kept:
        groups = found(
            "the cluster should be well between faults", lambda: self._seen_by(self.nodes[0]), PROMOTED_S
        )
        return chance.choice(groups)[0]

    def _replaced(self, old: Kept) -> bool:
        """Whether most of the others see another master in its place, and all slots served."""
        seen = [self._seen_by(node) for node in self.nodes if node is not old]
        return all(groups is not None and all(group[0] is not old for group in groups) for groups in seen)

    def _settled(self) -> bool:
        seen = [self._seen_by(node) for node in self.nodes]
        if any(groups is None or sorted(map(len, groups)) != [2, 2, 2] for groups in seen):
            return False
        agreed = {str(sorted([node.port for node in group] for group in groups or [])) for groups in seen}
        first = seen[0] or []
        return len(agreed) == 1 and all(group[1].follows(group[0].port) for group in first)
