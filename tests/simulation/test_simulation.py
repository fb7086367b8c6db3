"""The gate: thousands of schedules of each store, every single fault, and the planted bugs that die early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from recipes._contract.contenders import GRANTED, Contender
from recipes._contract.operations import Ticket
from recipes._programs.cleaner import Job
from recipes._rules.exclusive import EXCLUSIVE
from tests.simulation.__main__ import STORES, shrink
from tests.simulation.clients import SimRuntime
from tests.simulation.faults import AIMED, KINDS
from tests.simulation.gates import OF, by_default
from tests.simulation.multilock import MultiLockOracle
from tests.simulation.mutants import MUTANTS, Mutant, kill, planted
from tests.simulation.oracles import Oracle
from tests.simulation.run import Schedule, run
from tests.simulation.standing import Stands
from tests.simulation.sweep import sweep
from tests.simulation.users import MIXED
from tests.simulation.world import Violation, World

# A user that a violation leaves amid its block is closed by the collector, and what it hands on then is
# judged in vain.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROOT = Path(__file__).parents[2]
COUNTED = {"cell": 0.85}
"""The part of them that is long and hard enough to count, at least; else 0.99."""
SWEPT = {"redis": 5}
"""The seed of a schedule in which each fault can strike, where it is not 1: that there are replicas."""
EARLY, FEW = 1_000, 50
SLIPS = ("AttributeError", "TypeError", "NameError")
# Those that take more schedules than a test should run; ``nox -s mutants`` finds them all.
SLOW = {
    ("a removed contender goes unnoticed", "etcd"),
    ("a removed contender goes unnoticed", "zookeeper"),
    ("a late renewal revives", "zookeeper"),
    ("a grant is not confirmed", "redis"),
    ("deadline counted from the reply", "zookeeper"),
    ("deadline without margin", "zookeeper"),
    ("withdraws without sync", "zookeeper"),
}
SELDOM = {("a late renewal revives", "zookeeper"), ("a removed contender goes unnoticed", "zookeeper")}
"""Of these, what changes nothing in a thousand schedules."""
FOUND_BY = {
    ("a downgrade asked twice finds itself gone", "zookeeper"): 340,
    ("a key that was deleted frees nothing", "redis"): 853,
    ("a reader that comes to hold keeps nothing", "redis"): 357,
    ("a receipt says the last write alone", "zookeeper"): 139,
    ("a write of a session that has ended", "sql-polling"): 283,
    ("an incomplete snapshot grants", "zookeeper"): 208,
    ("an observer ignores a disturbance", "etcd"): 171,
    ("does not look for its own contender", "zookeeper"): 118,
    ("doubt ends with an answer to the second try", "zookeeper"): 158,
    ("generations are not told apart", "zookeeper"): 921,
    ("grants after a failover at once", "redis"): 644,
    ("grants after a failover at once", "sql-polling"): 139,
    ("grants without asking the clock", "zookeeper"): 244,
    ("nothing is missing", "cell"): 197,
    ("nothing is missing", "redis"): 510,
    ("nothing is missing", "sql-polling"): 128,
    ("replicas are not waited for", "redis"): 467,
    ("silence renews", "cell"): 109,
    ("the cleaner tries once", "etcd"): 217,
    ("the whole is held while the first part is", "etcd"): 226,
    ("the whole is held while the first part is", "zookeeper"): 135,
    ("those that were given up count", "zookeeper"): 987,
    ("verify asks for the first part", "etcd"): 672,
    ("verify asks for the first part", "zookeeper"): 344,
    ("what another write has read is not looked at", "etcd"): 152,
    ("what another write has read is not looked at", "zookeeper"): 139,
    ("written again on the next session", "etcd"): 139,
    ("written again on the next session", "zookeeper"): 150,
}
"""Schedules that notice what takes a hundred and more of them; these are tried first."""


def untraced(*arguments: str, **environment: str) -> list[str]:
    """Run Python in a process that no tracer slows; what coverage costs is not what is tested here."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=inherited | environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("store", STORES)
def test_no_schedule_breaks_a_promise(store: str) -> None:
    count = by_default(store, "locks")
    (line,) = untraced("-m", "tests.simulation", "--json", "--store", store, "--count", str(count))
    tally = json.loads(line)
    assert (tally["store"], tally["schedules"], tally["violations"]) == (store, count, [])
    assert tally["grants"] > 8 * count
    assert set(tally["faults"]) == {*KINDS[store], *AIMED[store]}
    assert all(struck > count / 200 for struck in tally["faults"].values())
    assert tally["counted"] >= COUNTED.get(store, 0.99) * count


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("of", "store"), [(of, store) for of in OF for store in STORES if store != "cell"])
def test_no_schedule_breaks_a_promise_of_another_recipe(of: str, store: str) -> None:
    """More of them: ``python -m tests.simulation --of election --schedules 100000``."""
    _, grants, observed = OF[of]
    count = by_default(store, of)
    (line,) = untraced(
        "-m", "tests.simulation", "--json", "--store", store, "--of", of, "--count", str(count)
    )
    tally = json.loads(line)
    assert (tally["violations"], tally["schedules"]) == ([], count)
    assert tally["grants"] > grants * count
    assert tally["observed"] >= observed * count


@pytest.mark.parametrize("store", STORES)
def test_one_fault_at_every_request_breaks_no_promise(store: str) -> None:
    swept = sweep(store, SWEPT.get(store, 1), enough=0)
    assert swept.violations == []
    assert swept.requests > 25
    assert set(swept.struck) == set(KINDS[store])
    # The key of a lock is taken most of the time; most transactions have ended when the next one is asked.
    seldom = {"stranger", "backend terminated"}
    assert all(count > swept.requests / 2 for kind, count in swept.struck.items() if kind not in seldom)


def test_nobody_is_asked_to_withdraw_while_it_is_cut_off() -> None:
    """The oracle asked for that once: one withdrawal lost, and a cut of 4.2 s just after it."""
    world = World(0)
    connection = SimpleNamespace(cut=True)
    hold = SimpleNamespace(
        entry=SimpleNamespace(token=5, ticket=SimpleNamespace(queue="q")),
        session=SimpleNamespace(ended=None, connection=connection),
        remaining=lambda _: 0.0,
    )
    client = SimpleNamespace(local=100.0, paused=False, dead=False, healthy_since=0.0)
    store = SimpleNamespace(
        standing=lambda queue: [Stands(5, "id", "lock")], forgets=lambda hold: False, held_up=False
    )
    oracle = Oracle(world, store, ttl_s=4.0)
    oracle.lost, oracle.due = [(client, hold)], {("q", 5): 50.0}
    for _ in range(3):
        oracle._not_for_too_long()
        world.now += 100.0
    connection.cut = False
    oracle._not_for_too_long()
    world.now += 100.0
    with pytest.raises(Violation, match="M2"):
        oracle._not_for_too_long()


def test_nobody_has_to_be_told_while_another_keeps_the_queue_locked() -> None:
    """The oracle asked for that once: one whose answers were lost for 5 s locked a row, try after try."""
    store = SimpleNamespace(grants_from=0.0, held_up=True, let_go_at=0.0)
    world = World(0)
    oracle = Oracle(world, store, ttl_s=4.0)
    client = SimpleNamespace(name="C", healthy_since=0.0)
    hold = SimpleNamespace(entry=SimpleNamespace(token=5, ticket=SimpleNamespace(queue="q")))
    oracle.head_since["q", 5] = world.now
    world.now += 100.0
    oracle._woken_in_time(client, hold)
    # Nor while the server ends one after the other of what clients left open that crashed.
    store.held_up, store.let_go_at, oracle.head_since["q", 5] = False, world.now - 1.0, world.now - 100.0
    oracle._woken_in_time(client, hold)
    store.let_go_at, oracle.head_since["q", 5] = 0.0, world.now - 100.0
    with pytest.raises(Violation, match="L2"):
        oracle._woken_in_time(client, hold)


def test_a_write_is_settled_once_the_server_has_ended_what_crashed_clients_left_open() -> None:
    """The oracle asked for that sooner: sixteen transactions each kept the row for a second."""
    verdict = run(Schedule("sql-polling", 320_004_611, of="values"))
    assert verdict.violation is None
    assert verdict.faults.count("crash") == 2


def test_what_a_failover_has_brought_back_is_not_gone() -> None:
    """The oracle asked for that once: the server that took over had never heard of a removal."""
    standing = [Stands(5, "id", "W")]
    world = World(0)
    oracle = MultiLockOracle(world, SimpleNamespace(standing=lambda queue: standing), ttl_s=4.0)
    part = SimpleNamespace(entry=SimpleNamespace(token=5, ticket=SimpleNamespace(queue="q")))
    whole: Any = SimpleNamespace(parts=[part])
    oracle.removed["q", 5] = 1.0
    oracle.verified(whole, True, 2.0)
    standing.clear()
    oracle.verified(whole, False, 2.0)
    with pytest.raises(Violation, match="T4"):
        oracle.verified(whole, True, 2.0)


def test_a_lock_whose_key_was_deleted_may_be_held_on_when_the_server_was_started_since() -> None:
    """The oracle forbade that once: for a while after its start Redis has renewals write such keys anew."""
    world, store = World(0), SimpleNamespace(lost_at=0.0, began_at=0.0)
    oracle, at = Oracle(world, store, ttl_s=4.0), world.now
    client = SimpleNamespace(paused=False, healthy_since=at)
    hold = SimpleNamespace(
        session=object(), turn=None, entry=SimpleNamespace(token=5, ticket=SimpleNamespace(queue="q"))
    )
    oracle.live, oracle.born["q", 5] = [(client, hold)], at
    oracle.removed["q", 5] = at + 50.0
    world.now, store.began_at = at + 100.0, at + 51.0  # one that was removed from the queue stays so
    with pytest.raises(Violation, match="L7"):
        oracle._noticed()
    oracle.deprived.add(("q", 5))
    oracle._noticed()
    store.began_at = at + 49.0
    with pytest.raises(Violation, match="L7"):
        oracle._noticed()


def test_what_ends_a_session_keeps_no_withdrawal_waiting() -> None:
    """It did in the simulation, unlike in either runtime: a contender hung behind a dead connection."""
    started: list[str] = []
    world = SimpleNamespace(pct=False, random=lambda: 0.0, start=lambda task: started.append(task.name))
    client = SimpleNamespace(name="A", gate=None, next_number=lambda: 1, world=world)
    runtime: Any = SimpleNamespace(client=client, jobs=deque(), cleaner=None)
    runtime._clean = lambda task, jobs: iter(())
    runtime._cleaning = partial(SimRuntime._cleaning, runtime)
    session: Any = SimpleNamespace()
    withdrawal = Job(session, Ticket("q", "lock", "q1"))
    for job in (Job(session, None), withdrawal):
        SimRuntime.clean_up(runtime, job)
    assert (started, list(runtime.jobs)) == (["A.closer", "A.cleaner"], [withdrawal])


def test_a_token_is_one_of_its_queue() -> None:
    """The oracle took two tokens of two queues for one: databases draw them from a clock."""
    first = [Stands(5, "a1", "W")]
    store = SimpleNamespace(
        standing=lambda queue: first if queue == "a" else [],
        forgets=lambda hold: False,
        grants_from=0.0,
        let_go_at=0.0,
    )
    world = World(0)
    oracle = Oracle(world, store, ttl_s=4.0, queues=("a", "b"))
    client = SimpleNamespace(name="C0", local=0.0, paused=False, dead=False, healthy_since=0.0)

    def granted(queue: str) -> None:
        began = oracle.asking(client)
        ticket = Ticket(queue, "lock", f"{queue}1")
        hold = SimpleNamespace(
            entry=SimpleNamespace(token=5, ticket=ticket),
            session=Mock(ended=None, clock=Mock(deadline=9.0)),
            contender=Contender(f"{queue}/5", ticket.id, "W"),
            ended=False,
            due=9.0,
            max_hold_s=None,
            remaining=lambda now: 9.0,
        )
        oracle.admitted(client, hold)
        oracle.granted(client, hold, began)

    granted("a")
    oracle._heads()
    world.now = 100.0
    granted("b")
    with pytest.raises(Violation, match="S3"):
        granted("a")


@pytest.mark.parametrize(
    ("session", "mark", "token", "notified"),
    [(4, "", 7, False), (6, "", 7, False), (4, "", 9, True), (4, GRANTED, 7, True), (5, "", 7, True)],
    ids=["left unmarked", "its loop was not notified yet", "it is behind", "marked", "of this session"],
)
def test_none_is_asked_to_notify_from_a_session_that_was_given_up(
    session: int, mark: str, token: int, notified: bool
) -> None:
    """The oracle asked for that once: a client had lost a session that lasted on, its permits unmarked."""
    world = World(0)
    standing = sorted([Stands(8, "mine", "S1.2"), Stands(token, "other", "S1.2", mark)])
    owned = [(5, "mine"), (session, "other")]
    store = SimpleNamespace(standing=lambda queue: standing, owned=lambda queue: owned, split=0)
    state = SimpleNamespace(session=SimpleNamespace(id="5", ended=None))
    runtime = SimpleNamespace(cleaning=False, state=state, keepalive=None)
    client = SimpleNamespace(paused=False, dead=False, runtime=runtime)
    over = SimpleNamespace(session=SimpleNamespace(id="6", ended="not renewed in time"))
    late = SimpleNamespace(
        paused=False, dead=False, runtime=SimpleNamespace(cleaning=False, state=over, keepalive=None)
    )
    call = SimpleNamespace(ticket=SimpleNamespace(id="mine", kind="S1.2"), session=state.session)
    waits: Any = SimpleNamespace(
        name="A0", client=client, call=call, patient=True, receiving=True, daemon=False, asked=None
    )
    world.tasks.append(waits)
    oracle = Oracle(world, store, ttl_s=4.0)
    oracle.clients = [client, late]
    with pytest.raises(Violation, match="L2") if notified else nullcontext():
        oracle.quiet()


@pytest.mark.parametrize("store", STORES)
def test_a_seed_replays_exactly(store: str) -> None:
    first, again = (run(Schedule(store, 7, trace=True)) for _ in range(2))
    assert first.trace == again.trace
    assert (first.requests, first.steps, first.grants) == (again.requests, again.steps, again.grants)
    assert first.trace
    show = f"from tests.simulation.run import *; print(run(Schedule({store!r}, 7)).fingerprint)"
    elsewhere = [untraced("-c", show, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert elsewhere == 2 * [[str(first.fingerprint)]]


def unplanted(mutant: Any, schedule: Schedule) -> Schedule:
    """Return the schedule with the rules as they are, where what is planted is a rule."""
    if mutant.plant is not list:
        return schedule
    return replace(schedule, rules=MIXED if mutant.rules else (EXCLUSIVE,))


@pytest.mark.parametrize(
    ("mutant", "store"),
    [
        pytest.param(mutant, store, id=f"{store}-{mutant.name}")
        for mutant in MUTANTS
        for store in mutant.stores
        if (mutant.name, store) not in SLOW
    ],
)
def test_a_planted_bug_is_found(mutant: Mutant, store: str) -> None:
    known = FOUND_BY.get((mutant.name, store))
    verdict = None if known is None else kill(mutant, store, 1, known)
    verdict = verdict or kill(mutant, store, EARLY)
    assert verdict is not None, "this bug went unnoticed"
    said = str(verdict.violation)
    assert not any(kind in said for kind in SLIPS), f"what was planted is no bug, but fails by itself: {said}"
    assert run(unplanted(mutant, verdict.schedule)).violation is None, "this is found without it, too"


@pytest.mark.parametrize(("name", "store"), sorted(SLOW - SELDOM))
def test_what_is_planted_and_found_late_changes_what_happens(name: str, store: str) -> None:
    """A bug that is planted where nothing comes by is found by nobody."""
    (mutant,) = [one for one in MUTANTS if one.name == name and store in one.stores]
    rules = (
        mutant.rules or (EXCLUSIVE if mutant.rule is None else mutant.rule,) if mutant.of == "locks" else ()
    )

    def differs(seed: int) -> bool:
        schedule = Schedule(store, seed, flavour=mutant.flavour, of=mutant.of, rules=rules)
        with planted(mutant):
            found = run(schedule).fingerprint
        return found != run(schedule).fingerprint

    assert any(map(differs, (*range(FEW), mutant.near)))


def test_a_master_that_was_replaced_grants_what_is_held_by_the_new_one() -> None:
    """In one of 100 000 schedules: so in that one, and not where the replica has to confirm it."""
    (mutant,) = [one for one in MUTANTS if one.name == "a grant is not confirmed"]
    schedule = Schedule("redis", mutant.near, of=mutant.of)
    with planted(mutant):
        assert str(run(schedule).violation).startswith("S2")
    assert run(schedule).violation is None


def test_most_planted_bugs_are_among_those() -> None:
    planted = sum(len(mutant.stores) for mutant in MUTANTS)
    assert planted >= 40
    assert len(SLOW) <= planted / 4
    assert FOUND_BY.keys() <= {(mutant.name, store) for mutant in MUTANTS for store in mutant.stores} - SLOW


def test_a_violation_is_shown_in_a_short_trace() -> None:
    herd = next(mutant for mutant in MUTANTS if mutant.name == "no look again after waking")
    with planted(herd):
        found = shrink("etcd", "S2: somebody", tries=200)
    assert found is not None
    assert found.violation is not None
    assert found.violation.startswith("S2")
    assert 0 < len(found.trace) < 120
