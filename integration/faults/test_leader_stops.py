"""A leader's process is stopped, or killed: told at once, its work ends before it campaigns again."""

from __future__ import annotations

import json
from typing import Any

from integration.faults.labs import LASTING_S, Lab, at_once
from integration.faults.looking import Gate
from integration.faults.workers import Worker
from recipes._run.clock import boot_time
from tests.pace import grown_s, put_off

TOLD_WITHIN_S = 0.5


def until(candidate: Worker, what: str) -> list[dict[str, Any]]:
    """Return what it tells, up to the next of that kind."""
    told: list[dict[str, Any]] = []
    while not told or told[-1]["what"] != what:
        told.append(json.loads(candidate.next_line()))
    return told


@at_once()
def test_fault_02_a_leader_stopped_past_its_session(lab: Lab) -> None:
    gate = Gate()
    leader = lab.worker("candidate", lab.name, "first")
    begun = until(leader, "begins")[-1]
    assert gate.write(begun["token"])
    other = lab.actor(session_timeout=LASTING_S)
    waiting = other.start(other.client.election(lab.name).campaign, "second", timeout=60)
    lab.seen.wait("election.queued", name=lab.name)

    stopped_at = boot_time()
    leader.stop()
    elected = waiting.result(60)
    took_s = boot_time() - stopped_at
    assert took_s <= lab.failover_s + lab.pace.late_s(stopped_at)  # L1
    assert gate.write(elected.token)
    assert other.call(other.client.election(lab.name).leader).value == "second"

    continued_at = boot_time()
    before = put_off(leader.pid)
    leader.go_on()
    told = until(leader, "election.queued")
    late_s = lab.pace.late_s(continued_at) + grown_s(before, put_off(leader.pid))
    names = [one["what"] for one in told]
    (continued,) = (one for one in told if one["what"] == "continued")
    (ended,) = (one for one in told if one["what"] == "ends")
    assert (continued["held"], continued["lost"]) == (False, True)  # the first call after SIGCONT, S4
    assert (ended["token"], ended["held"]) == (begun["token"], False)
    assert names.index("ends") < names.index("election.queued")
    assert names.count("election.lost") == 1
    assert not {"begins", "election.elected", "election.resigned"} & set(names)
    told_s = ended["at"] - continued_at
    lab.figure(
        f"a new leader {took_s:.2f} s after SIGSTOP, the work ended {told_s * 1000:.0f} ms after SIGCONT"
    )
    assert told_s <= TOLD_WITHIN_S + late_s
    assert not gate.write(begun["token"])
    assert elected.held
    assert len(lab.contenders()) == 2

    assert other.call(elected.release)
    again = until(leader, "begins")[-1]
    assert again["token"] > elected.token
    assert gate.write(again["token"])


@at_once()
def test_fault_01_kill_of_the_leader(lab: Lab) -> None:
    leader = lab.worker("candidate", lab.name, "first")
    begun = until(leader, "begins")[-1]
    second, third = (
        lab.worker("candidate", lab.name, value, session_s=LASTING_S) for value in ("second", "third")
    )
    for one in (second, third):
        until(one, "election.queued")

    killed_at = boot_time()
    leader.kill()
    looking = lab.actor(session_timeout=LASTING_S)
    observed = looking.client.election(lab.name).observe()
    while (seen := looking.call(observed.next, 60)) is None or seen.token == begun["token"]:
        pass
    took_s = boot_time() - killed_at
    following = {"second": second, "third": third}[seen.value]
    assert until(following, "begins")[-1]["token"] == seen.token > begun["token"]
    lab.figure(f"all saw a new leader {took_s:.2f} s after kill -9")
    assert took_s <= lab.failover_s + 0.5 + lab.pace.late_s(killed_at)  # L1
