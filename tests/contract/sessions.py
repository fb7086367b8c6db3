"""What ends a grant besides its release: the session, an operator, a close, a fork."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recipes import ClientClosed, LockLost
from recipes._contract.wakeups import Event
from recipes._run.clock import boot_time
from recipes.stores.registry import liveness_locks
from tests.contract.tap import Act
from tests.contract.world import LONG, SHORT, World, until
from tests.pace import Pace, taking


@dataclass(frozen=True)
class Frozen(Exception):
    """An error of a user's that refuses notes."""

    what: str


class Sessions:
    """The life of a session, and of what hangs on it."""

    def test_a_session_that_the_store_ended_is_told_by_the_next_renewal(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        grant, told = a.acquire("x"), threading.Event()
        grant.lost.add_callback(lambda lost: told.set() if lost is grant else None)
        old, sessions = grant.token, world.store.sessions()
        world.store.end_session(a.client)
        assert a.wait_lost(grant, 5)
        assert told.wait(5)
        assert (grant.held, grant.remaining) == (False, 0)
        assert grant.lost_reason
        assert grant.lost.is_set()
        with pytest.raises(LockLost, match="'x'"):
            grant.check()
        assert not a.verify(grant)
        other = b.acquire("x", timeout=5)
        assert other.token > old
        assert not a.release(grant)
        assert b.verify(other)
        (lost,) = world.heard.wait("lock.lost", name="x")
        assert (lost.token, lost.reason) == (old, grant.lost_reason)
        if world.store.has_sessions:
            world.heard.wait("session.lost")
        b.release(other)
        assert a.acquire("x", timeout=5).token > other.token  # under a session of its own
        assert not grant.held
        assert len(world.store.sessions() - sessions) <= 1

    def test_verify_sees_at_once_what_the_store_has_ended(self, world: World) -> None:
        client = world.client(**LONG)
        grant = client.acquire("x")
        assert client.verify(grant)
        world.store.end_session(client.client)
        assert not client.verify(grant)
        assert not grant.held

    @pytest.mark.needs("has_sessions", "has_queue")
    def test_waiters_of_an_ended_session_queue_again_and_say_so(self, world: World) -> None:
        a, b, c = world.client(), world.client(**SHORT), world.client()
        grant = a.acquire("x")
        requeued = b.queue_up("x")
        other = c.queue_up("x")
        world.store.end_session(b.client)
        (said,) = world.heard.wait("lock.requeued", name="x")
        assert said.reason
        assert said.attempt == 1
        assert until(lambda: len(world.store.contenders("x")) == 3, 5)
        a.release(grant)
        second = other.result(5)
        assert not requeued.done  # at the tail
        c.release(second)
        third = requeued.result(5)
        assert third.token > second.token
        assert world.heard.of("lock.acquired", token=third.token)[0].attempt == 2

    def test_a_session_whose_sign_of_life_other_code_closed_is_given_up(
        self, world: World, tmp_path: Path
    ) -> None:
        before = set(liveness_locks())
        a = world.client(**SHORT)
        grant, signs = a.acquire("x"), set(liveness_locks()) - before
        b = world.client(**LONG)
        kept = b.acquire("y")
        for number in signs:  # as a program does that closes all it finds, and opens a file of its own
            with (tmp_path / str(number)).open("w") as theirs:
                os.dup2(theirs.fileno(), number)
        if not signs:  # of this store nothing is to be closed
            assert a.verify(grant)
            return
        assert a.wait_lost(grant, 5)
        assert not grant.held
        assert "os.closerange" in grant.lost_reason
        assert b.acquire("x", timeout=5).token > grant.token
        assert not a.release(grant)
        a.close()
        for number in signs:
            assert os.write(number, b"theirs") == 6
            os.close(number)
            assert (tmp_path / str(number)).read_text() == "theirs"
        assert b.verify(kept)

    def test_a_contender_that_an_operator_deleted_is_told_to_be_lost(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        grant, kept = a.acquire("x"), a.acquire("y")
        world.store.remove(world.store.contenders("x")[0])
        other = b.acquire("x", timeout=5)
        assert a.wait_lost(grant, 5)
        assert "removed" in grant.lost_reason
        assert not a.release(grant)
        assert a.wait_clean()
        assert b.verify(other)
        assert kept.held
        assert a.verify(kept)

    @pytest.mark.needs("has_queue")
    def test_a_waiter_whose_contender_was_deleted_queues_again(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        grant = a.acquire("x")
        waiting = b.queue_up("x")
        world.store.remove(world.store.contenders("x")[1])
        world.heard.wait("lock.requeued", name="x")
        a.release(grant)
        assert waiting.result(5).held
        assert len(world.store.contenders("x")) == 1

    def test_the_holder_is_told_before_the_store_frees(self, world: World) -> None:
        a, b = world.client(frail=True, **SHORT), world.client(**SHORT)
        grant = a.acquire("x")
        told: list[float] = []
        rang = threading.Event()

        def tell(_: Any) -> None:
            told.append(boot_time())
            rang.set()

        grant.lost.add_callback(tell)
        waiting = b.queue_up("x")
        a.line.silence()
        with Pace() as pace:
            lost_at = boot_time() + grant.remaining
            assert rang.wait(world.short_s + 4)
            assert not grant.held
            assert told[0] <= lost_at + 0.5 + pace.late_s(lost_at)
            other = waiting.result(world.short_s + 4)
            assert told[0] <= waiting.ended_at + pace.late_s(lost_at)
            stood_still = pace.late_s(lost_at - 0.9, lost_at) > 0.6  # while it was to be doubted
        assert grant.token < other.token
        a.line.heal()
        assert not a.release(grant)
        assert b.verify(other)
        assert world.heard.of("session.suspect") or stood_still
        assert until(lambda: a.client.session.state == "held", 5)  # another session
        assert not grant.held

    def test_waiting_ends_without_any_event_of_the_store(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        grant = a.acquire("x")
        b.tap.drops = lambda event: isinstance(event, Event)
        waiting = b.queue_up("x")
        with taking(world.short_s + 1):
            a.release(grant)
            assert waiting.result().held

    def test_a_with_statement_whose_grant_is_lost_says_so(self, world: World) -> None:
        a = world.client(**SHORT)
        left = threading.Event()

        def body(grant: Any) -> None:
            world.store.end_session(a.client)
            until(lambda: not grant.held, 5)
            left.wait(0.2)

        with pytest.raises(LockLost) as lost:
            a.enter("x", body)
        assert lost.value.lock == "x"
        assert lost.value.reason
        left.set()

    def test_the_bodys_error_goes_before_the_loss(self, world: World) -> None:
        a = world.client(**SHORT)
        options = {"on_lost": "tell"} if world.api.is_async else {}

        def body(grant: Any) -> None:
            world.store.end_session(a.client)
            until(lambda: not grant.held, 5)
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine") as raised:
            a.enter("x", body, **options)
        assert "lost before this" in raised.value.__notes__[0]

    def test_the_bodys_error_comes_out_also_if_it_takes_no_note(self, world: World) -> None:
        client = world.client(**LONG)
        options = {"on_lost": "tell"} if world.api.is_async else {}

        def body(grant: Any) -> None:
            world.store.end_session(client.client)
            assert client.api.start(grant.verify).result(5) is False
            raise Frozen("mine")

        with pytest.raises(Frozen) as raised:
            client.enter("x", body, **options)
        assert raised.value == Frozen("mine")

    @pytest.mark.needs("has_sessions")
    def test_a_with_statement_is_never_entered_with_a_grant_that_died_on_the_way(self, world: World) -> None:
        a = world.client(**SHORT)
        a.release(a.acquire("x"))
        a.tap.fail(Act.HOLD_REPLY)
        running = world.api.spawn(lambda: a.enter("x", lambda grant: (grant.held, grant.remaining > 0)))
        assert until(lambda: world.store.contenders("x"), 5)
        world.store.end_session(a.client)
        world.heard.wait("session.lost")
        a.tap.let_go()
        assert running.result() == (True, True)
        world.heard.wait("lock.requeued", name="x")
        assert [acquired.attempt for acquired in world.heard.of("lock.acquired", name="x")] == [1, 2]

    @pytest.mark.needs("has_queue")
    def test_a_waiter_whose_connection_is_cut_keeps_its_place(self, world: World) -> None:
        a, b, c = world.client(), world.client(frail=True), world.client()
        grant = a.acquire("x")
        waiting, behind = b.queue_up("x", timeout=None), c.queue_up("x")
        place = world.store.contenders("x")[1]
        b.line.cut()
        world.store.forget_history()
        b.line.heal()
        assert world.store.contenders("x")[1] == place
        a.release(grant)
        second = waiting.result(10)
        assert world.store.contenders("x")[0] == place
        assert not behind.done
        b.release(second)
        assert behind.result(5).held

    def test_closing_releases_and_ends_what_is_under_way(self, world: World) -> None:
        others = world.store.sessions()
        a = world.client()
        own = world.store.sessions() - others
        b = world.client()
        grants = [a.acquire(name) for name in ("x", "y")]
        mine, other = a.acquiring("x"), b.queue_up("x")
        a.tap.wait_parked()
        with taking(5):
            a.close()
        assert other.result(5).held
        assert isinstance(mine.error(), ClientClosed)
        assert [grant.held for grant in grants] == [False, False]
        assert not a.release(grants[1])
        assert world.store.contenders("y") == []
        if world.store.has_sessions:
            assert own
            assert until(lambda: not own & world.store.sessions(), 5)
        a.close()
        with pytest.raises(ClientClosed):
            a.acquire("x")
        with pytest.raises(ClientClosed):
            a.try_acquire("x")
        assert a.client.session.state == "closed"

    def test_closing_while_the_session_is_being_started_leaves_no_session(self, world: World) -> None:
        before = world.store.sessions()
        client = world.client(frail=True, is_open=False, **SHORT)
        client.line.silence()
        opening = world.api.start(client.client.open)
        assert until(lambda: client.tap.asked, 5)
        closing = world.api.start(client.client.close)
        assert until(lambda: client.client.session.state == "closed", 5)
        client.line.heal()
        closing.result(5)
        assert isinstance(opening.error(), ClientClosed)
        assert until(lambda: world.store.sessions() <= before, 12), world.store.sessions() - before
