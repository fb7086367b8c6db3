"""Fault 21: no room left on the store: a quota that is used up, and a disk without a byte.

Beyond a quota both stores refuse what would be written, and do everything else: whoever holds goes on,
and can let go. Without a byte on its disk a server ends: etcd within moments, ZooKeeper when its log has
to grow. Then what holds for a store that is away holds here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

import recipes
from integration import servers
from integration.faults.labs import Lab, at_once
from integration.faults.looking import hold_fault, taking
from integration.harness import finding
from integration.harness.disk import fill, on_small_disk
from integration.needing import needed
from integration.proxy import Proxy
from recipes._run.clock import boot_time

pytestmark = pytest.mark.long
QUOTA_BYTES = 8 << 20
ANSWER_S = 10.0  # a full store may be slow, and is not to seem away
SOON_S = 20.0
AT_ONCE_S = 0.5
PIECE = "x" * 500_000


class SmallEtcd(servers.Etcd):
    """An etcd with a small quota."""

    def command(self) -> Sequence[str]:
        return [*super().command(), f"--quota-backend-bytes={QUOTA_BYTES}"]

    def healthy(self) -> bool:
        """Whether it answers: one that is full calls itself unhealthy."""
        return super().healthy() or (self.running and bool(self.alarms()))

    def alarms(self) -> list[dict[str, str]]:
        """Return what it warns of."""
        with contextlib.suppress(OSError, RuntimeError):
            return list(self.ask("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", ()))
        return []

    def fill(self, prefix: str) -> None:
        """Write until it refuses."""
        refused = ""
        while not refused:
            try:
                self.put("~filler", PIECE)
            except RuntimeError as error:
                refused = str(error)
        assert "space exceeded" in refused

    def make_room(self, prefix: str) -> None:
        """Delete, compact, give the space back, and end the alarm, as an operator does."""
        self.delete("~filler")
        self.compact()
        self.ask("/v3/maintenance/defragment", timeout_s=30)
        for alarm in self.alarms():
            self.ask("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})


class SmallZooKeeper(servers.ZooKeeper):
    """A ZooKeeper that enforces quotas."""

    def fill(self, prefix: str) -> None:
        """Allow no more nodes than there are."""
        left = servers.leftovers(self, prefix)
        count = len(left.contenders) + len(left.parents)
        with servers.kazoo_client(self) as client:
            quota = f"/zookeeper/quota/{prefix}"
            client.ensure_path(quota)
            client.create(f"{quota}/zookeeper_stats", f"count={count},bytes=0".encode())
            limits = f"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit={count}"
            client.create(f"{quota}/zookeeper_limits", limits.encode())

    def make_room(self, prefix: str) -> None:
        """Allow as many as there may be."""
        with servers.kazoo_client(self) as client:
            client.delete(f"/zookeeper/quota/{prefix}", recursive=True)


SMALL: dict[str, Callable[[], servers.Server]] = {
    "etcd-3.4": lambda: SmallEtcd("small-etcd-3.4", finding.find_etcd_34()),
    "etcd-3.5": lambda: SmallEtcd("small-etcd-3.5", finding.find_etcd_35()),
    "etcd-grpc": lambda: SmallEtcd("small-etcd-grpc", finding.find_etcd_34(), grpc=True),
    "zookeeper-3.8": lambda: SmallZooKeeper(
        "small-zookeeper", finding.find_zookeeper(), jvm=["-Dzookeeper.enforceQuota=true"]
    ),
}


@pytest.fixture(params=list(SMALL))
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Yield a server of its own for each test: it is filled."""
    with needed(request.param, SMALL[request.param]) as one:
        yield one


@contextlib.contextmanager
def refused_at_once(server: servers.Server) -> Iterator[None]:
    """See that the block is refused for want of room, and waits for nothing but the answer."""
    with taking(AT_ONCE_S, served_by=server.pid), pytest.raises(recipes.StoreFull, match="free space there"):
        yield


@at_once()
def test_fault_21_quota_used_up(lab: Lab) -> None:
    assert isinstance(lab.server, SmallEtcd | SmallZooKeeper)
    session_s = 10.0
    one, other = (lab.actor(session_timeout=session_s, request_timeout=ANSWER_S) for _ in range(2))
    other.acquire("never").release()
    held, kept = one.acquire(lab.name), one.acquire("kept")
    waiting = other.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    lab.together.wait()
    if isinstance(lab.server, SmallZooKeeper) or lab.together.wait() == 0:
        lab.server.fill(lab.prefix)
    if isinstance(lab.server, SmallEtcd):
        lab.together.wait()

    for call in (other.acquire, other.try_acquire):
        with refused_at_once(lab.server):
            call("another")
    hold_fault(1.5 * session_s)  # both go on being renewed
    assert held.held
    assert kept.verify()
    assert held.release() is True
    granted = waiting.result(SOON_S)  # who stands in the queue is granted
    assert granted.verify()
    assert granted.release() is True
    assert one.client.pending_cleanups == other.client.pending_cleanups == 0
    assert len(lab.contenders()) == 1
    for event in ("lock.lost", "session.lost", "lock.requeued"):
        assert not lab.seen.of(event)

    lab.together.wait()
    if isinstance(lab.server, SmallZooKeeper) or lab.together.wait() == 0:
        lab.server.make_room(lab.prefix)
    if isinstance(lab.server, SmallEtcd):
        lab.together.wait()
    assert other.acquire("another", timeout=SOON_S).token > granted.token
    assert kept.held


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
def test_fault_21_a_hundred_grants_are_renewed_in_a_few_round_trips(
    server: SmallEtcd, prefix: str, figure: Callable[[str], None]
) -> None:
    """Read one after the other they would take a hundred, and on a slow way longer than the session lives."""
    with Proxy.of(server) as proxy, recipes.connect(proxy.url(prefix), session_timeout=10) as client:
        grants = [client.lock(f"x{n}").acquire() for n in range(100)]
        server.fill(prefix)
        proxy.delay(0.1)
        deadline = boot_time() + 20  # two sessions
        while boot_time() < deadline:
            hold_fault(0.5)
            assert all(grant.held for grant in grants)
        figure(f"{min(grant.remaining for grant in grants):.1f} s of 10 s are left")
        assert min(grant.remaining for grant in grants) > 3
        proxy.heal()
        server.make_room(prefix)
        assert all(grant.release() for grant in grants)


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
def test_fault_21_values_are_read_and_not_written_beyond_the_quota(server: SmallEtcd, prefix: str) -> None:
    with (
        recipes.connect(server.url(prefix), request_timeout=ANSWER_S) as client,
        recipes.connect(server.url(prefix), request_timeout=ANSWER_S) as other,
    ):
        value, counter = client.value("x"), client.counter("n")
        value.set(b"before")
        assert counter.add(5) == 5
        server.fill(prefix)
        calls: list[Callable[[], object]] = [
            lambda: value.set(b"after"),
            lambda: value.set_if(b"after", 0),
            value.delete,
            counter.add,
            lambda: other.value("x").set(b"first"),
        ]
        for call in calls:
            with refused_at_once(server):
                call()
        seen = value.get()
        assert seen is not None
        assert (seen.data, counter.get(), client.pending_cleanups) == (b"before", 5, 0)
        server.make_room(prefix)
        assert value.set_if(b"after", seen.version)
        assert counter.add() == 6


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
def test_fault_21_what_took_the_last_room_is_not_called_refused(server: SmallEtcd, prefix: str) -> None:
    """Of those that write as the room ends, etcd may carry one out and answer that there is no space."""
    for n in range(4):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(recipes.connect(server.url(f"{prefix}/{n}"))) for _ in range(8)]
            with ThreadPoolExecutor(len(clients)) as pool:
                done = list(pool.map(write_until_full, clients))
            for client, last in zip(clients, done, strict=True):
                seen = client.value(client.session.id).get()
                assert (None if seen is None else seen.data) == last
        server.delete(f"{prefix}/{n}/")
        server.make_room(prefix)


@pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True)
def test_fault_21_a_session_that_has_all_that_it_may_can_be_read_as_it_ends(
    server: SmallZooKeeper, prefix: str, figure: Callable[[str], None]
) -> None:
    """Its end lists every path. What was too long for that stopped the ensemble, and each start again."""
    names = [f"{n:04d}".rjust(1024, "n") for n in range(1000)]
    grants: list[recipes.Grant] = []
    with (
        recipes.connect(server.url(prefix), session_timeout=60) as client,
        recipes.connect(server.url(prefix), session_timeout=60) as other,
    ):
        with pytest.raises(recipes.StoreFull, match="several clients"):
            grants.extend(client.lock(name).acquire() for name in names)
        figure(f"{len(grants)} locks with the longest names")
        assert len(grants) > 800
        assert other.lock(names[-1]).acquire().release()
        assert grants[0].release()
        assert client.lock(names[-1]).acquire().held
        assert client.pending_cleanups == 0
    server.kill()
    server.start()
    with recipes.connect(server.url(prefix)) as client:
        for name in (names[0], names[len(grants) - 1], names[-1]):
            assert client.lock(name).acquire(timeout=0).release()


def write_until_full(client: recipes.Client) -> bytes | None:
    """Write until the store refuses; returns what was written last."""
    client.open()
    value, last = client.value(client.session.id), None
    with contextlib.suppress(recipes.StoreFull):
        for n in range(1000):
            data = b"%d " % n + PIECE[:150_000].encode()
            value.set(data)
            last = data
    return last


RELEASED_S = 1.25  # its request has one second
REFUSED = (recipes.LockTimeout, recipes.StoreError, recipes.SessionLost)
DISKS = {**dict.fromkeys(servers.ETCDS, "200m"), "zookeeper-3.8": "8m"}  # etcd takes 62 MB at once, twice


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Yield a server whose data are on a small disk of its own."""
    name = request.param
    one = needed(name, servers.ALL[name].make)
    with contextlib.ExitStack() as stack:
        yield needed("a small disk", lambda: stack.enter_context(on_small_disk(one, DISKS[name])))


@pytest.mark.parametrize("disk", list(DISKS), indirect=True)
@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_fault_21_disk_without_a_byte(
    disk: servers.Server, api: str, prefix: str, figure: Callable[[str], None]
) -> None:
    from integration.faults.actors import actor

    session_s = 4.0
    one = actor(api, disk.url(prefix), session_timeout=session_s, request_timeout=1)
    try:
        held = one.acquire("x")
        filler = fill(disk.home)
        filled_at = boot_time()
        cycles = 0
        while disk.running:
            granted = None
            with taking(2.25), contextlib.suppress(*REFUSED):  # L6
                granted = one.acquire("another", timeout=2)
            try:
                with taking(RELEASED_S):
                    assert granted is None or granted.release() in (True, False)
                cycles += granted is not None
            except REFUSED:
                granted = None
            if granted is None:
                hold_fault(0.05)
            assert boot_time() < filled_at + 60, "it goes on"
        figure(f"the server ended {boot_time() - filled_at:.1f} s and {cycles} cycles after the last byte")
        assert held.wait_lost(2 * session_s)
        assert held.held is False
        filler.unlink()
        disk.start()
        again = one.acquire("x", timeout=4 * session_s)
        assert again.token > held.token
        assert again.verify()
        assert held.release() is False
        assert again.release() is True
    finally:
        one.close()
