"""The faults, on files: clients are processes that are killed, stopped and forked; no server is needed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import recipes
from integration import servers
from integration.faults import test_holder_stops, test_names, test_promises, test_release
from integration.faults.actors import AsyncActor
from integration.faults.labs import LASTING_S, Lab, at_once
from integration.faults.looking import hold_fault
from integration.faults.storm import STORM_SESSION_S, Tally, Weather, churn, in_time
from integration.faults.test_interrupts import cancel_task, expire, expire_task, side_by_side, storm
from integration.faults.workers import Worker
from integration.harness.process import ServerUnavailable
from integration.needing import needed
from recipes._run.clock import boot_time
from tests.pace import Pace, taking

CONTAINER = [
    *("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"),
    *("--mount-proc", "--fork", "--kill-child=KILL"),
]
"""What runs a command in namespaces as those of a container."""
STARTS = 30
CREW = 4
SOON_S = 5

SCENARIOS = (
    test_holder_stops.test_fault_01_kill_of_the_holder,
    test_holder_stops.test_fault_02_stop_past_ttl,
    test_holder_stops.test_fault_02_held_needs_no_help_from_a_thread,
    test_holder_stops.test_fault_03_stop_shorter_than_ttl,
    test_release.test_fault_25_double_release,
    test_release.test_fault_25_release_by_another_thread_or_task,
    test_release.test_fault_25_release_by_many_at_once,
    test_release.test_fault_32_contender_of_a_holder_deleted,
    test_release.test_fault_32_contender_of_a_waiter_deleted,
    test_release.test_fault_32_contender_deleted_and_a_verify_finds_it,
    test_names.test_fault_35_every_name_is_a_lock_of_its_own,
    test_names.test_fault_36_names_that_are_prefixes_of_each_other,
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Files]:
    """Yield a directory of files."""
    with servers.Files() as files:
        yield files


@pytest.fixture
def figure(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Return what prints a measured figure."""

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"  {text}")

    return tell


@pytest.fixture(params=["blocking", "asyncio"])
def lab(request: pytest.FixtureRequest, server: servers.Files, prefix: str, figure: Any) -> Iterator[Lab]:
    """Yield a lab for a test that has to be alone in the process, for each API in turn."""
    with Lab(server, prefix, request.param, figure, threading.Barrier(1)) as one:
        yield one


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.__name__))
def test_as_on_the_servers(
    scenario: Callable[..., None], server: servers.Files, prefix: str, figure: Callable[[str], None]
) -> None:
    scenario(server, prefix, figure)


def test_promise_l8_nothing_is_left_of_many_cycles(lab: Lab) -> None:
    test_promises.test_promise_l8_nothing_is_left_of_many_cycles(lab)


@at_once()
def test_fault_01_a_death_is_seen_at_once(lab: Lab) -> None:
    holder, waiter = lab.worker(session_s=30), lab.actor(session_timeout=30)
    old_token = holder.ask("acquire", lab.name, 5)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    killed_at = boot_time()
    with taking(1.0):
        holder.kill()
        held = waiting.result(20)
        lab.figure(f"granted {boot_time() - killed_at:.3f} s after kill -9 (session 30 s)")
    assert held.token > old_token


def test_fault_01_killed_at_any_moment_nothing_is_lost_and_nobody_waits_long(
    server: servers.Files, prefix: str, figure: Callable[[str], None]
) -> None:
    chance, tokens, waits = random.Random(prefix), [], []
    url = server.url(prefix)
    command = [sys.executable, "-m", "tests.stores.sqlite.mayfly", url]
    with recipes.connect(url, session_timeout=30) as client:
        for _ in range(25):
            crew = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            for one in crew:
                assert one.stdout is not None
                tokens.append(int(one.stdout.readline()))  # it is at work
            hold_fault(chance.uniform(0, 0.02))
            for one in crew:
                one.kill()
            with Pace() as pace, client.lock("x").acquire(timeout=20) as grant:
                waits.append(pace.seconds - pace.late_s())
                said = [line for one in crew for line in one.communicate()[0].splitlines(keepends=True)]
                tokens += [int(line) for line in said if line.endswith("\n")]
                assert grant.token > max(tokens)
        assert server.ask(prefix, "PRAGMA integrity_check") == [("ok",)]
        assert client.lock("y").acquire(timeout=5).token > max(tokens)
        with recipes.connect(url):  # who comes sees who died
            assert server.ask(prefix, "SELECT COUNT(*) FROM session") == [(2,)]
    figure(
        f"{len(tokens)} grants of 50 processes that were killed; the next waited {max(waits):.2f} s at most"
    )
    assert len(tokens) == len(set(tokens))
    assert max(waits) <= 1.0
    assert server.contenders(prefix) == ()


@pytest.fixture(scope="module")
def containers() -> None:
    """End a test where none can be made: without root, on macOS, or in a container without the right to."""
    needed("namespaces", make_container)


def make_container() -> None:
    """Make one with a directory mounted in it, or raise why not."""
    try:
        subprocess.run(
            [*CONTAINER, "mount", "--bind", "/", "/mnt"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ServerUnavailable((getattr(error, "stderr", "") or str(error)).strip()) from error


@pytest.mark.usefixtures("containers")
@at_once()
def test_fault_01_a_death_in_another_container_is_seen_at_once(lab: Lab) -> None:
    """Each has the directory mounted elsewhere, and numbers its processes by itself."""
    file = Path(urlsplit(lab.server.url(lab.prefix)).path)
    inside = ["sh", "-ec", 'mount --bind "$0" /mnt; exec "$@"', str(file.parent)]
    with ExitStack() as stack:
        holder, waiter = (
            stack.enter_context(
                Worker(
                    "faults.worker", lab.api, f"sqlite:///mnt/{file.name}", 30,
                    wrap=lambda command: [*CONTAINER, *inside, *command],
                )
            )
            for _ in range(2)
        )  # fmt: skip
        old_token = holder.ask("acquire", lab.name, 5)
        assert lab.actor().try_acquire(lab.name) is None
        waiter.tell("acquire", lab.name, 20)
        assert lab.contenders_become(2)
        with taking(1.0):
            holder.kill()
            assert json.loads(waiter.next_line()) > old_token
        assert waiter.ask("release") is True


@at_once()
def test_fault_01_a_waiter_that_was_killed_holds_up_nobody(lab: Lab) -> None:
    held = lab.actor(session_timeout=LASTING_S).acquire(lab.name)
    middle = lab.worker(session_s=30)
    middle.tell("acquire", lab.name, 20)
    assert lab.contenders_become(2)
    last = lab.actor(session_timeout=30).start_acquire(lab.name)
    assert lab.contenders_become(3)
    middle.kill()
    assert held.release()
    assert last.result(5).held


@at_once()
def test_fault_01_who_comes_after_a_death_needs_not_wait(lab: Lab) -> None:
    holder = lab.worker(session_s=30)
    holder.ask("acquire", lab.name, 5)
    holder.kill()
    assert lab.actor().try_acquire(lab.name) is not None


@at_once()
def test_fault_02_a_stopped_holder_is_alive_until_its_session_ends(lab: Lab) -> None:
    holder = lab.worker(session_s=LASTING_S)
    holder.ask("acquire", lab.name, 5)
    holder.stop()
    hold_fault(1.0)
    assert lab.actor().try_acquire(lab.name) is None
    assert lab.actor().acquire(lab.name, timeout=LASTING_S + 1).held


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_26_27_interruptions(lab: Lab, prefix: str) -> None:
    lab.session_s = STORM_SESSION_S
    with Pace() as pace, churn(lab, prefix):
        blocking, tasks = (lab.actor(api=api) for api in ("blocking", "asyncio"))
        assert isinstance(tasks, AsyncActor)
        script = lab.worker("shot", "calls", 150, prefix)
        timed, timed_tasks, cancelled = (Tally(count, pace) for count in (60, 60, 100))
        side_by_side(
            *(partial(expire, blocking, timed, Weather((prefix, "threads", n)), n) for n in range(CREW)),
            lambda: tasks.run(storm(tasks, timed_tasks, expire_task, prefix)),
            lambda: tasks.run(storm(tasks, cancelled, cancel_task, prefix)),
        )
        shot = json.loads(script.next_line(180))
    for tally in (timed, timed_tasks, cancelled):
        lab.figure(f"{tally.interrupted} interrupted, {1000 * tally.worst_s:.0f} ms late at most")
        assert in_time(tally.lateness)
    lab.figure(f"SIGINTs: {shot}")
    assert in_time(shot)
    assert (shot["strays"], shot["swallowed"], shot["settled"]) == (0, 0, True)
    for one in (blocking, tasks):
        assert servers.eventually(lambda one=one: one.client.pending_cleanups == 0, SOON_S)
        assert one.client.grants == []
    assert lab.contenders_become(0), lab.contenders()
    for one in (blocking, tasks):
        assert one.acquire("busy", timeout=5).release()
    assert script.ask("go on") is True


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_27_signals_while_the_session_starts(lab: Lab, prefix: str) -> None:
    before = servers.sessions(lab.server)
    script = lab.worker("shot", "starts", STARTS, prefix)
    shot = json.loads(script.next_line(180))
    lab.figure(f"{shot}")
    assert in_time(shot)
    assert (shot["strays"], shot["doubled"], shot["left"]) == (0, 0, 0)
    assert lab.contenders() == []
    assert servers.eventually(lambda: not servers.sessions(lab.server) - before, lab.failover_s + 20)
    script.tell("go on")
