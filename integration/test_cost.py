"""What an uncontended acquire and release may cost, where that does not depend on the machine.

How the bounds were found: ``python -m integration.cost FACE URL`` on Python 3.11 and 3.13, the larger of
the two figures, and a fifth more for instructions and memory (a new Python counts otherwise, and a
change that is worth it may take some); nothing more for requests, and little for calls of the
system. Who breaks one has made every acquire of every user slower: say in the commit what is had
for it, or mend it. ``test_budget.py`` counts requests in every other situation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from integration import servers
from integration.cost import Cost, measured
from integration.counting import COUNTED, on_the_wire
from integration.proxy import Proxy, matching
from integration.stores import ServerStore
from tests.contract.world import World

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]

KIB = 1024
MOST = {
    ("zookeeper", "blocking"): Cost(7_200, 8, 27 * KIB, 20, 0),  # row 43 takes 64 of them
    ("zookeeper", "asyncio"): Cost(9_300, 18, 27 * KIB, 20, 8 * KIB),  # calls: as the two threads meet
    ("etcd", "blocking"): Cost(9_000, 8, 86 * KIB, 20, 0),  # row 43 takes 96 of them
    ("etcd", "asyncio"): Cost(11_200, 14, 330 * KIB, 20, 8 * KIB),  # asyncio reads into 256 KiB
    ("etcd+grpc", "blocking"): Cost(14_300, 8, 86 * KIB, 20, 0),  # messages are Python here, and C in JSON
    ("etcd+grpc", "asyncio"): Cost(17_100, 14, 330 * KIB, 20, 10 * KIB),
}
RENEWAL = {"zookeeper": (2, 17 + 81, 25 + 88), "etcd": (2, 520 + 270, 950), "etcd+grpc": (2, 522, 200)}
"""Requests, and bytes up and down, of one renewal with one grant, as in docs/operating/performance.md."""
BYTES = {"zookeeper": (300, 320), "etcd": (1_650, 1_400), "etcd+grpc": (860, 350)}
"""Up and down, with names as long as here; the gateway speaks JSON. 150 bytes up compare the anchor."""


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_what_a_cycle_costs(
    server: servers.Server, prefix: str, api: str, figure: Callable[[str], None]
) -> None:
    most, found = MOST[server.scheme, api], measured(api, server.url(prefix))
    figure(str(found))
    assert found.instructions <= most.instructions
    assert found.system_calls <= most.system_calls
    assert found.peak_bytes <= most.peak_bytes
    assert found.left_blocks <= most.left_blocks
    assert found.waiter_bytes <= most.waiter_bytes


def test_what_a_cycle_sends(
    server: servers.Server, proxy: Proxy, world: World, store: ServerStore, figure: Callable[[str], None]
) -> None:
    party = world.client(url=proxy.url(store.prefix), session_timeout=60)
    party.release(party.acquire("x"))
    with proxy.counting() as counts:
        party.release(party.acquire("x"))
    figure(f"{counts.bytes_up} bytes up, {counts.bytes_down} down")
    assert on_the_wire(counts) == (2 if server.kind == "etcd" else 3)
    most_up, most_down = BYTES[server.scheme]
    assert counts.bytes_up <= most_up
    assert counts.bytes_down <= most_down


def test_what_a_renewal_sends(
    server: servers.Server, proxy: Proxy, world: World, store: ServerStore, figure: Callable[[str], None]
) -> None:
    party = world.client(url=proxy.url(store.prefix), session_timeout=4)
    party.acquire("x")
    asked = matching("sync") if server.scheme == "zookeeper" else matching("lease/keepalive")
    with proxy.counting() as counts:
        assert proxy.expect(asked, n=3).sprung.wait(30)
    renewals = counts.requests["sync"] or counts.requests["/v3/lease/keepalive"]
    figure(
        f"{on_the_wire(counts)} requests, {counts.bytes_up} bytes up, {counts.bytes_down} down: {renewals}"
    )
    most, most_up, most_down = (each * (renewals + 1) for each in RENEWAL[server.scheme])  # one may be cut
    assert on_the_wire(counts) <= most
    assert counts.bytes_up <= 1.1 * most_up
    assert counts.bytes_down <= 1.1 * most_down
