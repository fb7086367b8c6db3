"""Requests that arrive late or twice, renewals that overtake them, and messages that never come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

import recipes
from integration.faults.looking import hold_fault
from integration.harness.process import eventually
from integration.proxy import matching
from integration.redis_faults.conftest import SESSION_S, Lab
from recipes._run.clock import boot_time
from tests.pace import Pace

SOON_S = 20.0
AT_ONCE_S, NOTICED_S = 2.0, 4.0  # a lost listener: after a reset, and where its connection says nothing more
LANDS_S = 0.5  # what arrives at a server has its effect sooner


def test_fault_41_a_join_that_was_withdrawn_arrives_late(lab: Lab) -> None:
    """It is refused by the tombstone that its withdrawal left."""
    one = lab.client(proxied=True)
    trap = lab.proxy.hold_request(match=matching("join"))
    for _ in range(20):
        with pytest.raises(recipes.LockTimeout):
            one.acquire(lab.name, timeout=0.3)
        if trap.sprung.wait(1):  # else it had no time left to ask
            break
    assert trap.sprung.is_set()
    assert eventually(lambda: one.client.pending_cleanups == 0, SOON_S)
    assert lab.contenders() == ()
    lab.proxy.release(trap)
    assert not eventually(lab.contenders, LANDS_S), "a contender that nothing owns"
    assert one.acquire(lab.name, timeout=SOON_S).release()


def test_fault_12_a_join_that_was_asked_again_arrives_late(lab: Lab) -> None:
    """While the contender stands it is the same one; once that is released, it does not come back."""
    one = lab.client(proxied=True, session_timeout=6.0)
    first, second = (lab.proxy.hold_request(match=matching("join")) for _ in range(2))
    assert first is not second
    lab.proxy.lift(second)
    held = one.acquire(lab.name, timeout=SOON_S)
    assert first.sprung.is_set()
    assert len(lab.contenders()) == 1
    lab.proxy.release(first)
    assert not eventually(lambda: len(lab.contenders()) != 1, LANDS_S)
    assert held.verify()
    late = lab.proxy.hold_request(match=matching("join"))
    other = one.acquire("other", timeout=SOON_S)
    assert late.sprung.is_set()
    assert other.release()
    lab.proxy.release(late)
    assert not eventually(lambda: len(lab.contenders()) != 1, LANDS_S), "a contender that was released"


def test_fault_12_a_renewal_overtakes_the_answer_to_a_join(lab: Lab) -> None:
    """The server keeps a contender for at least as long as its holder believes."""
    session_s = 9.0
    one = lab.client(proxied=True, session_timeout=session_s, request_timeout=0.6 * session_s)
    trap = lab.proxy.drop_reply(match=matching("join"), silent=True)
    renewed = lab.proxy.expect(matching("pexpire"))
    waiting = one.start_acquire(lab.name, timeout=SOON_S)
    assert trap.sprung.wait(SOON_S)
    assert renewed.sprung.wait(SOON_S)
    held = waiting.result(SOON_S)
    for _ in range(10):
        ends_at = boot_time() + held.grant.remaining
        kept_s = lab.server.ask("PTTL", lab.key) / 1000
        assert kept_s > 0
        assert ends_at <= boot_time() + kept_s + 0.05 * session_s
        hold_fault(session_s / 30)
    assert held.verify()
    assert held.release()


def test_fault_49_a_write_that_was_given_up_arrives_late(lab: Lab) -> None:
    """It is refused, for another has been written since."""
    one = lab.client(proxied=True)
    value, counter = one.client.value("state"), one.client.counter("hits")
    one.call(value.set, b"first")
    assert one.call(counter.add) == 1
    traps = []
    for method, *words in ((value.set, b"late"), (counter.add,)):
        traps.append(lab.proxy.hold_request(match=matching("put")))
        with contextlib.suppress(recipes.OutcomeUnknown):
            one.call(method, *words)
        assert traps[-1].sprung.is_set()
    one.call(value.set, b"last")
    assert one.call(counter.set_if, 5, one.call(counter.get))
    for trap in traps:
        lab.proxy.release(trap)

    def changed() -> bool:
        return one.call(counter.get) != 5 or one.call(value.get).data != b"last"

    assert not eventually(changed, LANDS_S)
    assert one.call(counter.add) == 6


@pytest.mark.parametrize("how", ["reset", "silent"])
def test_fault_17_the_listener_is_cut_while_a_contender_waits(
    lab: Lab, how: str, figure: Callable[[str], None]
) -> None:
    """Its waiter looks again: at once after a reset, soon after a connection is found to be dead."""
    # By time it looks after seven seconds at the earliest, and when the holder's lease is over.
    holder, one = lab.client(session_timeout=60), lab.client(proxied=True, session_timeout=20)
    held = holder.acquire(lab.name)
    waiting = one.start_acquire(lab.name, timeout=SOON_S)
    assert eventually(lambda: len(lab.contenders()) == 2, SOON_S)
    if how == "reset":
        lab.proxy.cut()
        assert held.release()
        lab.proxy.heal()
    else:
        trap = lab.proxy.drop_reply(match=matching("ping"), silent=True)
        assert trap.sprung.wait(SOON_S)
        assert held.release()
    with Pace() as pace:
        began = boot_time()
        granted = waiting.result(SOON_S)
        took_s = boot_time() - began
        assert took_s < (AT_ONCE_S if how == "reset" else NOTICED_S) + pace.late_s(began)
    figure(f"granted {took_s:.2f} s after it was free")
    assert granted.token > held.token


def test_fault_17_every_message_is_lost(lab: Lab) -> None:
    """The waiter knows when what blocks it ends, and looks then (L2)."""
    holder, one = lab.client(), lab.client(proxied=True)
    held = holder.acquire(lab.name)
    lab.proxy.lose_events()
    waiting = one.start_acquire(lab.name, timeout=SOON_S)
    assert eventually(lambda: len(lab.contenders()) == 2, SOON_S)
    with Pace() as pace:
        began = boot_time()
        assert held.release()
        assert waiting.result(SOON_S).token > held.token
        assert boot_time() - began < SESSION_S + 1 + pace.late_s(began)


def test_other_programs_that_put_an_expiry_off_keep_no_dead_holder_alive(lab: Lab) -> None:
    """They do so if TTL rounds to 0, in the last half second of each lease."""
    holder, waiter = lab.client(proxied=True), lab.client()
    held = holder.acquire(lab.name)
    over, put_off = threading.Event(), threading.Event()

    def setnx_then_expire() -> None:
        with lab.server.client() as client:
            while not over.wait(0.002) and not client.setnx(lab.key, "another"):
                if client.ttl(lab.key) == 0:
                    client.expire(lab.key, 10)
                    put_off.set()

    waiting = waiter.start_acquire(lab.name, timeout=SOON_S)
    assert eventually(lambda: len(lab.contenders()) == 2, SOON_S)
    others = [threading.Thread(target=setnx_then_expire) for _ in range(2)]
    with Pace() as pace:
        lab.proxy.cut()  # the holder is as good as dead
        began = boot_time()
        for one in others:
            one.start()
        try:
            granted = waiting.result(SOON_S)
            took_s = boot_time() - began
        finally:
            over.set()
            for one in others:
                one.join(SOON_S)
        assert took_s < SESSION_S + 1 + pace.late_s(began)
    assert put_off.is_set(), "they should have put it off"
    assert granted.token > held.token
    with contextlib.suppress(recipes.RecipesError):
        held.release()
