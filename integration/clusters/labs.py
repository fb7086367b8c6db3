"""Where a scenario on a cluster happens: clients attached to the member one likes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import recipes
from integration import servers
from integration.faults.actors import Actor, Held, actor
from integration.faults.labs import Lab, at_once
from integration.harness.hub import Hub
from integration.harness.process import url_of
from integration.proxy import Proxy
from recipes._run.clock import boot_time

__all__ = ["MADE", "SESSION_S", "ClusterLab", "cluster_of", "on_clusters"]

T = TypeVar("T")
ELECTION_MS = 500
TICK_MS = 500
CUT_OFF_TICKS = 40
"""For so long a ZooKeeper that is cut off believes in itself: longer than its clients' sessions last."""
SESSION_S = 6.0
"""Long enough for a member to be given up and a leader to be elected, on a slow machine too."""

MADE = ("etcd-3.4", "etcd-grpc", "zookeeper-3.8")
"""The kinds of every run: etcd 3.4, since a member of 3.5.1 that was killed may forget what it had stored
(etcd issue 13766, mended in 3.5.3). Its clients then find a store that has gone back, and say so.
"""


def cluster_of(kind: str, *, hub: bool = False) -> Any:
    """Return a cluster of that kind, not started."""
    on = Hub(3) if hub else None
    if kind.startswith("etcd"):
        binary = (servers.etcd_35() if kind == "etcd-3.5" else servers.etcd_34()).binary
        return servers.EtcdCluster(kind, binary, election_ms=ELECTION_MS, hub=on, grpc=kind == "etcd-grpc")
    cluster = servers.ZooKeeperCluster(kind, servers.zookeeper_38().java, tick_ms=TICK_MS, hub=on)
    for member in cluster.members:
        member.sync_limit = CUT_OFF_TICKS if hub else CUT_OFF_TICKS // 2  # without a hub none is cut off
    return cluster


class Attached:
    """A client that is attached to one member, by proxies before all of them."""

    def __init__(self, lab: ClusterLab, member: Any, **options: Any) -> None:
        cluster = lab.server
        self.proxies = {one: lab.entered(Proxy.of(one)) for one in cluster.members}
        self.at = self.proxies[member]
        addresses = [proxy.address for proxy in (self.at, *self.others())]
        url = url_of(cluster.scheme, addresses, lab.prefix)
        for proxy in self.others():
            proxy.cut()
        self.actor = lab.made(url, **options)
        self.actor.open()
        for proxy in self.others():
            proxy.heal()

    def others(self) -> list[Proxy]:
        """Return the proxies before the other members."""
        return [proxy for proxy in self.proxies.values() if proxy is not self.at]

    def requests_elsewhere(self) -> int:
        """Count what was asked of the other members."""
        return sum(proxy.counts().requests.total() for proxy in self.others())


class ClusterLab(Lab):
    """A lab on a cluster; ``once`` has one of the cases do a thing when all are ready for it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.attachments: list[Attached] = []

    def attached(self, member: Any, **options: Any) -> Attached:
        """Return a client of all members, attached to ``member``."""
        one = Attached(self, member, **options)
        self.attachments.append(one)
        return one

    def client(self, *members: Any, **options: Any) -> Actor:
        """Return an open client that knows these members only; all, if none is named."""
        addresses = [member.address for member in members or self.server.members]
        one = self.made(url_of(self.server.scheme, addresses, self.prefix), **options)
        one.open()
        return one

    def made(self, url: str, **options: Any) -> Actor:
        """Return a client, not open yet; closed with the lab."""
        one = actor(self.api, url, **{"session_timeout": SESSION_S, **options})
        self._stack.callback(one.close)
        return one

    def entered(self, proxy: Proxy) -> Proxy:
        """Start a proxy, which ends with the lab."""
        return self._stack.enter_context(proxy)

    def heal(self) -> None:
        for one in self.attachments:
            for proxy in one.proxies.values():
                proxy.heal()

    def _last_words(self) -> str:
        return "members that were not started again"

    def once(self, act: Callable[[], Any]) -> float:
        """Have ``act`` done by one of the cases when all are here; returns when that was, in boot time."""
        if self.together.wait() == 0:
            self.server.acted_at = boot_time()
            act()
        self.together.wait()
        at: float = self.server.acted_at
        return at

    def failover_after_s(self, session_s: float) -> float:
        """Within how many seconds of a holder's death the next contender holds (L1)."""
        return session_s + 1 + (TICK_MS / 1000 if self.server.scheme == "zookeeper" else 0)

    def renewed_since(self, held: Held, since: float, within_s: float = 4 * SESSION_S) -> bool:
        """Wait until the session of a grant counts from what was sent after ``since``; whether it does."""
        return servers.eventually(lambda: held.grant._hold.session.clock.counted > since, within_s)

    def when_served(self, ask: Callable[[], T], within_s: float = 30.0) -> T:
        """Ask until the store serves again, and return the answer."""
        answers: list[T] = []

        def served() -> bool:
            try:
                answers.append(ask())
            except recipes.StoreUnavailable:
                return False
            return True

        assert servers.eventually(served, within_s), "the store should serve again"
        return answers[0]


on_clusters = partial(at_once, ClusterLab)
"""Make a test of a scenario on clusters: for each kind in turn, with all its cases side by side."""
