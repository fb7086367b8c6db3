"""Which server is asked about a key: of one, of what sentinels say, and of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.crc import key_slot
from redis.exceptions import AuthenticationError

from recipes.errors import StoreDenied, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.redis.access import Access
from recipes.stores.redis.places import Ask, Cluster, Finding, One, Redirected, Sentinels

A, B, C, D = (("a", 1), ("b", 2), ("c", 3), ("::d", 4))
NAMELESS, NAMED = Access(), Access(db=1)
GONE = ConnectionError("refused")
NAMING = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")


def drive(finding: Finding[Any], answer: Callable[[Ask], Any]) -> tuple[Any, list[Ask]]:
    """Answer all that is asked; return what was found."""
    asked: list[Ask] = []
    reply: Any = None
    while True:
        try:
            ask = finding.send(reply)
        except StopIteration as done:
            return done.value, asked
        asked.append(ask)
        reply = answer(ask)


def replies(of: dict[Any, Any]) -> Callable[[Ask], Any]:
    """Answer by the server that is asked, or by that and how to log in there."""
    return lambda ask: of.get((ask.address, ask.access), of.get(ask.address, GONE))


def watching(*sentinels: tuple[str, int]) -> Sentinels:
    return Sentinels(sentinels, "main", (NAMELESS, NAMED))


def test_one_server_has_all_keys() -> None:
    one = One([D])
    assert drive(one.server_of("x"), replies({})) == (D, [])
    assert drive(one.masters(), replies({})) == ([D], [])
    assert (one.label, one.tag_of(D), one.redirected("MOVED 1 x:1", D)) == ("[::d]:4", "", None)
    one.lost(D)


def test_the_master_is_asked_itself_whether_it_is_one() -> None:
    place = watching(A, B)
    found, asked = drive(place.server_of("x"), replies({A: [b"c", b"3"], C: [b"master", 0, []]}))
    assert found == C
    assert asked == [Ask(A, NAMING, NAMELESS), Ask(C, ("ROLE",))]
    assert place.label == "a:1,b:2/main"


def test_what_is_known_is_told_without_asking() -> None:
    assert One([D]).known("x") == D
    place, cluster = watching(A), Cluster([A])
    assert place.known("x") is cluster.known("x") is None
    drive(place.server_of("x"), replies({A: [b"c", b"3"], C: [b"master", 0, []]}))
    drive(cluster.server_of("x"), replies({A: [[0, 16383, [b"b", 2]]]}))
    assert (place.known("x"), cluster.known("x")) == (C, B)
    place.lost(C)
    cluster.lost(B)
    assert place.known("x") is cluster.known("x") is None
    drive(cluster.server_of(LOW), replies({A: [[0, key_slot(LOW.encode()), [b"b", 2]]], B: GONE}))
    assert (cluster.known(LOW), cluster.known(HIGH)) == (B, None)


def test_a_sentinel_that_names_a_former_master_is_not_believed() -> None:
    place, other = watching(A, B, ("e", 5)), [b"::d", b"4"]
    answer = replies({A: [b"c", b"3"], C: [b"slave"], B: other, ("e", 5): other, D: [b"master"]})
    assert drive(place.server_of("x"), answer)[0] == D
    assert drive(place.server_of("x"), answer) == (D, []), "it is known"
    place.lost(C)
    assert drive(place.server_of("x"), answer) == (D, []), "which was another"
    place.lost(D)
    found, asked = drive(place.server_of("x"), answer)
    assert (found, asked[0].address) == (D, ("e", 5)), "the one that was wrong is asked last"


def test_after_a_loss_another_sentinel_is_asked_first() -> None:
    place = watching(A, B)
    behind = {A: [b"c", b"3"], B: [b"::d", b"4"], C: [b"master", 0, []], D: [b"master", 0, []]}
    found, _ = drive(place.server_of("x"), lambda ask: behind[ask.address])
    assert found == C  # cut off from all but the first sentinel, and its clients
    place.lost(D)
    assert drive(place.server_of("x"), replies({})) == (C, [])
    place.lost(C)
    found, asked = drive(place.server_of("x"), lambda ask: behind[ask.address])
    assert found == D
    assert A not in [ask.address for ask in asked]


def test_the_sentinels_that_another_thread_goes_through_stay_as_they_are() -> None:
    place = watching(A, B)
    seen = place.servers
    drive(place.server_of("x"), replies({B: [b"c", b"3"], C: [b"master"]}))
    assert seen == [A, B]
    assert place.servers == [B, A]


def test_a_sentinel_is_logged_in_to_only_if_it_wants_that() -> None:
    wants = AuthenticationError("Authentication required.")
    answer = replies({(A, NAMELESS): wants, (A, NAMED): [b"c", b"3"], C: [b"master"]})
    found, asked = drive(watching(A).server_of("x"), answer)
    assert found == C
    assert [ask.access for ask in asked] == [NAMELESS, NAMED, None]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, StoreUnavailable, "sentinel b:2: refused"),
        ({A: None, B: None}, StoreRefused, "sentinel b:2 knows no master 'main'"),
        ({A: None}, StoreUnavailable, "sentinel b:2: refused"),
        ({A: [b"c", b"3"]}, StoreUnavailable, "refused"),
        ({B: [b"c", b"3"]}, StoreUnavailable, "master c:3: refused"),
        ({B: [b"c", b"3"], C: [b"slave"]}, StoreUnavailable, "c:3, which sentinel b:2 names, is a slave"),
    ],
)
def test_without_a_master_it_is_said_why(given: dict[Any, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        drive(watching(A, B).server_of("x"), replies(given))


def test_a_master_that_only_some_sentinels_do_not_know_may_come() -> None:
    with pytest.raises(StoreUnavailable):
        drive(watching(A, B).server_of("x"), replies({B: None}))


SLOTS = [
    [0, 8000, [b"a", 1, b"id"], [b"c", 3, b"id"]],
    [8001, 16382, [b"", 2, b"id"]],
]
LOW, HIGH = "{2}", "{1}"
"""Tags with a slot of the first and of the second range."""


def test_a_cluster_is_asked_for_its_slots_once() -> None:
    assert key_slot(LOW.encode()) <= 8000 < key_slot(HIGH.encode())
    place = Cluster([B])
    answer = replies({B: SLOTS})
    found, asked = drive(place.server_of("x"), answer)
    assert asked == [Ask(B, ("CLUSTER", "SLOTS"))]
    assert drive(place.server_of(f"lock:{LOW}:queue"), answer) == (A, [])
    assert drive(place.server_of(HIGH), answer) == (B, []), "without a name it is the one that was asked"
    assert found in {A, B}
    assert drive(place.masters(), answer)[0] == [A, B]


def test_a_tag_lies_in_a_slot_of_the_node() -> None:
    place = Cluster([B])
    drive(place.server_of("x"), replies({B: SLOTS}))
    assert key_slot(place.tag_of(A).encode()) <= 8000 < key_slot(place.tag_of(B).encode())
    place.lost(A)
    assert place.tag_of(A), "it is known until another map is read"
    assert place.tag_of(C) == ""


def test_a_server_that_takes_all_the_time_is_asked_last_the_next_time() -> None:
    late = StoreUnavailable("redis", "no answer in time")
    sentinels, cluster = watching(A, B, C), Cluster([A, B, C])
    for place in (sentinels, cluster):
        with pytest.raises(StoreUnavailable, match=r"(sentinel|node) c:3: no answer in time; check"):
            drive(place.server_of("x"), lambda _: late)
    asked = [drive(place.server_of("x"), answering)[1] for place in (sentinels, cluster)]
    assert [one[0].address for one in asked] == [B, B]


WHY = [
    (AuthenticationError("WRONGPASS"), StoreDenied),
    (StoreDenied("redis", "WRONGPASS"), StoreDenied),
    (StoreUntrusted("redis", "expired"), StoreUntrusted),
    (GONE, StoreUnavailable),
]


@pytest.mark.parametrize(("error", "kind"), WHY)
def test_why_no_server_says_anything_shows_in_the_error(error: Exception, kind: type[Exception]) -> None:
    for place in (watching(A, B), Cluster([A, B])):
        with pytest.raises(kind, match=r"b:2: (WRONGPASS|expired|refused)") as raised:
            drive(place.server_of("x"), lambda _: error)
        assert type(raised.value) is kind


@pytest.mark.parametrize(("error", "kind"), WHY)
def test_why_a_master_says_nothing_shows_in_the_error(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"master c:3: (WRONGPASS|expired|refused)") as raised:
        drive(watching(A).server_of("x"), replies({A: [b"c", b"3"], C: error}))
    assert type(raised.value) is kind


def answering(ask: Ask) -> Any:
    """Be a sentinel, a master, and a node of a cluster."""
    return {"SENTINEL": [b"d", b"4"], "ROLE": [b"master"], "CLUSTER": SLOTS}[ask.words[0]]


def test_a_slot_that_no_node_has_is_said_and_looked_for_again() -> None:
    place = Cluster([A])
    short = [[0, 1, [b"a", 1, b"id"]]]
    with pytest.raises(StoreUnavailable, match="no node has slot"):
        drive(place.server_of(HIGH), replies({A: short}))
    assert drive(place.server_of(HIGH), replies({A: SLOTS}))[0] == ("a", 2)


def test_after_a_loss_another_node_is_asked_for_the_map() -> None:
    place = Cluster([A])
    drive(place.server_of(LOW), replies({A: SLOTS}))
    place.lost(A)
    after = [[0, 16383, [b"c", 3, b"id"]]]
    found, asked = drive(place.server_of(LOW), replies({C: after, A: GONE}))
    assert found == C
    assert A not in [ask.address for ask in asked]


def test_moved_and_ask_say_where_a_key_is() -> None:
    place = Cluster([A])
    drive(place.server_of(LOW), replies({A: SLOTS}))
    assert place.redirected("ASK 3999 ::d:4", A) == Redirected(D, once=True)
    assert drive(place.server_of(LOW), replies({})) == (A, []), "a slot that is being moved is still there"
    assert place.redirected("MOVED 3999 :2", A) == Redirected(("a", 2), once=False)
    with pytest.raises(StoreUnavailable, match=r"node .*: refused"):
        drive(place.server_of(LOW), replies({}))
    assert place.redirected("ERR something else", A) is None
    assert place.redirected("MOVED", A) is None


def test_nodes_are_reached_where_the_client_has_them() -> None:
    """Behind a tunnel, say: they know each other by addresses that nobody else reaches."""
    inside = [[0, 8000, [b"10.0.0.1", 1, b"id"]], [8001, 16383, [b"10.0.0.2", 2, b"id"]]]
    place = Cluster([A], lambda address: ("127.0.0.1", 7000 + address[1]))
    found, asked = drive(place.server_of(LOW), replies({A: inside}))
    assert found == ("127.0.0.1", 7001)
    assert place.tag_of(found)
    assert drive(place.masters(), replies({A: GONE, found: inside}))[0] == [found, ("127.0.0.1", 7002)]
    assert place.redirected("ASK 1 10.0.0.2:2", found) == Redirected(("127.0.0.1", 7002), once=True)
    assert [ask.address for ask in asked] == [A]


def test_nodes_that_know_of_no_slots_are_passed_over() -> None:
    with pytest.raises(StoreUnavailable, match="node a:1: it knows of no slots"):
        drive(Cluster([A]).server_of("x"), replies({A: []}))
