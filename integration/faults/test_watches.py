"""Watches that tell nothing: compacted, deaf, cut in silence, or set too late."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from integration import servers
from integration.faults.labs import Lab, at_once
from integration.harness.wire import Match, matching
from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores.etcd import grpc_messages
from recipes.stores.etcd.stream_book import Arming, WatchBook

LONG_S = 9.0  # the periodic re-read comes after 6.3 s and more: what comes sooner was told
TOLD_S = 1.5
AGAIN_S = 6.0  # for as long as a session a queue may go unread
SOON_S = 20.0


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
def test_fault_16_compaction_under_a_watch(lab: Lab) -> None:
    assert isinstance(lab.server, servers.Etcd)
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    compact(lab.server, lab.prefix)
    asked: list[int] = []
    create_message = WatchBook.create_message

    def from_what_is_compacted(self: Any, number: int) -> dict[str, Any]:
        message = create_message(self, number)
        if not asked:  # as a watch that fell behind: the server creates it, and cancels it
            message["create_request"]["start_revision"] = 1
        asked.append(number)
        return message

    named = grpc_messages._writers(grpc_messages.METHODS["/watch"].asks["create_request"][1])
    field = {"start_revision": grpc_messages._writer(3, grpc_messages.INT)}  # which we never send
    with (
        mock.patch.dict(named, field),
        mock.patch.object(WatchBook, "create_message", from_what_is_compacted),
    ):
        waiting = lab.actor(session_timeout=LONG_S).start_acquire(lab.name)
        lab.seen.wait("lock.queued", name=lab.name)
        assert servers.eventually(lambda: len(asked) >= 2, SOON_S)  # watched again
    compact(lab.server, lab.prefix)
    assert len(lab.contenders()) == 2
    assert not waiting.done()
    released_at = boot_time()
    assert held.release()
    assert waiting.result(SOON_S).verify()
    took_s = boot_time() - released_at
    lab.figure(f"hand-over {1000 * took_s:.1f} ms after two compactions")
    assert took_s < TOLD_S + lab.pace.late_s(released_at)


def compact(server: servers.Etcd, prefix: str) -> None:
    for number in range(5):
        server.put(f"{prefix}/~something", str(number))
    server.delete(f"{prefix}/~something")
    server.compact()


@at_once()
def test_fault_17_every_event_lost(lab: Lab) -> None:
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    waiting = lab.actor(proxied=True, session_timeout=AGAIN_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    last_one = lab.actor(proxied=True, session_timeout=AGAIN_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)
    lab.proxy.lose_events()
    handed_on(lab, held, waiting, last_one)


def handed_on(lab: Lab, held: Any, *waiting: Any) -> None:
    """Have each be granted in turn, though no watch tells of the release before: by L2."""
    for next_one in waiting:
        released_at = boot_time()
        assert held.release()
        held = next_one.result(2 * SOON_S)
        took_s = boot_time() - released_at
        lab.figure(f"granted {took_s:.2f} s after a release that no watch told of")
        assert took_s <= AGAIN_S + 1 + lab.pace.late_s(released_at)
    assert held.verify()
    assert not lab.seen.of("session.lost")


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
@at_once()
def test_fault_17_watch_stream_cut_in_silence(lab: Lab) -> None:
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    waiter = lab.actor(proxied=True, session_timeout=AGAIN_S)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    other = lab.actor(session_timeout=LONG_S).acquire("another")
    trap = lab.proxy.drop_reply(match=matching("watch chunk"), silent=True)  # all after it is lost too
    also = waiter.start_acquire("another")
    assert trap.sprung.wait(SOON_S)
    released_at = boot_time()
    assert held.release()
    assert other.release()
    assert waiting.result(2 * SOON_S).verify()
    assert also.result(2 * SOON_S).verify()
    took_s = boot_time() - released_at
    lab.figure(f"granted {took_s:.2f} s after the release, the stream being silent")
    assert took_s <= AGAIN_S / 2 + lab.pace.late_s(released_at)  # and not only as the queue is read again


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
def test_fault_17_no_watch_can_be_made(lab: Lab) -> None:
    """As where a process has no file left for its stream, or a proxy holds back what is not complete.

    Not at once for both APIs: what two threads patch, one of them leaves patched.
    """
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    with mock.patch.object(WatchBook, "arm", _refuse):
        waiting = lab.actor(session_timeout=AGAIN_S).start_acquire(lab.name)
        lab.seen.wait("lock.queued", name=lab.name, position=1)
        last_one = lab.actor(session_timeout=AGAIN_S).start_acquire(lab.name)
        lab.seen.wait("lock.queued", name=lab.name, position=2)
        handed_on(lab, held, waiting, last_one)


def _refuse(book: WatchBook, arming: Arming, store: str, *, twice: bool = True) -> None:
    book.told.append(arming.answer(StoreUnavailable(store, "there is no file left")))


@pytest.mark.parametrize("server", servers.CONSENSUS, indirect=True)
@at_once()
def test_fault_19_blocker_gone_between_listing_and_watching(lab: Lab) -> None:
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    waiter = lab.actor(proxied=True, session_timeout=LONG_S)
    waiter.acquire("something").release()
    trap = lab.proxy.hold_request(match=watches(lab.server))
    waiting = waiter.start_acquire(lab.name)
    assert trap.sprung.wait(SOON_S)  # it has seen the holder, and its watch is on the way
    assert held.release()
    assert lab.contenders_become(1)
    let_go_at = boot_time()
    lab.proxy.release(trap)
    granted = waiting.result(SOON_S)
    took_s = boot_time() - let_go_at
    lab.figure(f"granted {1000 * took_s:.1f} ms after a watch that came too late")
    assert took_s < TOLD_S + lab.pace.late_s(let_go_at)
    assert granted.verify()


def watches(server: servers.Server) -> Match:
    """Match the request that watches."""
    return matching("get" if isinstance(server, servers.ZooKeeper) else "/v3/watch")
