"""The holder's process is killed, or stopped for long or for short."""

from __future__ import annotations

from integration.faults.labs import LASTING_S, SESSION_S, Lab, at_once
from integration.faults.looking import Gate, hold_fault
from recipes._run.clock import boot_time


@at_once()
def test_fault_01_kill_of_the_holder(lab: Lab) -> None:
    holder = lab.worker()
    old_token = holder.ask("acquire", lab.name, 20)
    next_one = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    last_one = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)

    killed_at = boot_time()
    holder.kill()
    held = next_one.result(30)
    took_s = boot_time() - killed_at

    lab.figure(f"failover {took_s:.2f} s after kill -9 (session {SESSION_S} s)")
    assert took_s <= lab.failover_s + lab.pace.late_s(killed_at)  # L1
    assert held.token > old_token
    assert not last_one.done()  # L3
    assert held.release()
    assert last_one.result(20).token > held.token


@at_once()
def test_fault_02_stop_past_ttl(lab: Lab) -> None:
    gate = Gate()
    holder = lab.worker()
    old_token = holder.ask("acquire", lab.name, 20)
    assert gate.write(old_token)

    stopped_at = boot_time()
    holder.stop()
    new = lab.actor(session_timeout=LASTING_S).acquire(lab.name, timeout=30)
    took_s = boot_time() - stopped_at
    lab.figure(f"granted {took_s:.2f} s after SIGSTOP")
    assert took_s <= lab.failover_s + lab.pace.late_s(stopped_at)
    assert gate.write(new.token)
    standing = lab.contenders()
    assert len(standing) == 1

    holder.go_on()
    first = holder.ask("continued")
    assert first["held"] is False  # the first call after SIGCONT, S4
    assert first["lost"] is True
    assert first["reason"]
    assert holder.ask("release") is False  # S5
    assert holder.ask("verify") is False
    assert not gate.write(old_token)
    assert new.verify()
    assert new.held
    assert lab.contenders() == standing
    assert holder.ask("wait_told", "lock.lost") == 1
    assert holder.ask("told", "lock.released") == 0

    assert new.release()
    assert holder.ask("acquire", lab.name, 20) > new.token  # with a session of its own again
    assert holder.ask("release") is True


@at_once()
def test_fault_03_stop_shorter_than_ttl(lab: Lab) -> None:
    session_s = 9.0
    holder = lab.worker(session_s=session_s)
    token = holder.ask("acquire", lab.name, 20)
    waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)

    holder.stop()
    hold_fault(1.2)  # less than is proven at any moment of a 9 s session
    holder.go_on()

    assert holder.ask("continued")["held"] is True
    hold_fault(session_s)  # a loss would have been told by now
    assert holder.ask("state") == {"held": True, "token": token, "reason": None}
    assert holder.ask("verify") is True
    assert holder.ask("told", "lock.lost") == 0
    assert holder.ask("told", "session.lost") == 0
    assert not waiting.done()
    assert holder.ask("release") is True
    assert waiting.result(20).token > token


@at_once()
def test_fault_02_held_needs_no_help_from_a_thread(lab: Lab) -> None:
    spinner = lab.worker("spinner")
    spinner.stop()
    hold_fault(SESSION_S)
    spinner.go_on()
    assert spinner.next_line() == "false at first sight"
    assert spinner.next_line() == "again True"  # and is not told that it would wait for itself
