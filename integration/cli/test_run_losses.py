"""``recipes run`` when its lock is lost on a real server: nothing of the command runs on."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest

import recipes
from integration import servers
from integration.proxy import Proxy
from integration.stores import store_on
from recipes._run.clock import boot_time
from recipes.cli import codes
from tests.cli.runs import MARGIN, Run, alive
from tests.pace import Pace

TTL_S, GRACE_S = 8.0, 2.0
STARVED = None
"""The command's code is not known if its guard was so late that it was ended with it."""
SERVERS = servers.CONSENSUS
OPTIONS = ("--ttl", str(TTL_S), "--grace", str(GRACE_S))


def on(usual: str) -> pytest.MarkDecorator:
    """Run a test on one server always, and on the others in the long session."""
    others = [pytest.param(name, marks=pytest.mark.long) for name in SERVERS if name != usual]
    return pytest.mark.parametrize("server", [usual, *others], indirect=True)


@on("etcd-3.5")
def test_a_store_that_stops_ends_the_command_before_the_deadline(
    server: servers.Server, prefix: str, url: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        cases = {"polite": ("family",), "stubborn": ("family", "stubborn"), "ignoring": ("stubborn",)}
        runs = {
            name: stack.enter_context(
                Run(
                    url,
                    tmp_path / name,
                    *OPTIONS,
                    *(["--on-lost", "ignore"] if name == "ignoring" else []),
                    words=words,
                    lock=name,
                )
            )
            for name, words in cases.items()
        }
        for run in runs.values():
            run.until("child")
        pace = stack.enter_context(Pace())
        server.pause()
        stack.callback(server.resume)
        stopped_at = boot_time()
        for name in ("polite", "stubborn"):
            runs[name].gone_at()
            assert boot_time() - stopped_at < TTL_S + pace.late_s(stopped_at + TTL_S * (1 - MARGIN)), name
            assert runs[name].noted("child-SIGTERM")
            assert runs[name].noted("far-SIGTERM")
        server.resume()
        for name, command_code in (("polite", 7), ("stubborn", 137)):
            code, said, report = runs[name].ended()
            assert (code, report["outcome"]) == (codes.LOST, "lost")
            assert report["command_code"] in (command_code, STARVED)
            assert "is asked to end" in said
        assert alive(runs["ignoring"].pid())
        runs["ignoring"].signal(signal.SIGUSR1)
        runs["ignoring"].until("child-SIGUSR1")
    servers.settle(server, prefix)
    servers.clean(server, prefix)


@on("etcd-3.5")
def test_more_signals_while_it_waits_leave_nothing_in_the_queue(
    server: servers.Server, prefix: str, url: str, tmp_path: Path
) -> None:
    log = tmp_path / "events"
    store = store_on(server, prefix)
    with Proxy.of(server) as proxy, recipes.connect(url) as client, client.lock("x") as grant:
        with Run(proxy.url(prefix), tmp_path / "run", "--ttl", "60", "--events", str(log)) as run:
            assert servers.eventually(lambda: log.exists() and "lock.queued" in log.read_text(), 30)
            assert len(store.contenders("x")) == 2
            proxy.blackhole()
            run.signal(signal.SIGTERM)
            assert servers.eventually(lambda: "lock.cancelled" in log.read_text(), 30, every_s=0.005)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                run.signal(number)
            proxy.heal()
            code, _, report = run.ended()
        assert (code, report["outcome"]) == (128 + signal.SIGTERM, "interrupted")
        assert len(store.contenders("x")) == 1, "the session would have lasted for a minute"
        assert grant.held
    servers.settle(server, prefix)
    servers.clean(server, prefix)


@on("zookeeper-3.8")
def test_an_operator_that_removes_the_contender_ends_the_command(
    server: servers.Server, prefix: str, url: str, tmp_path: Path
) -> None:
    store = store_on(server, prefix)
    with (
        Run(url, tmp_path / "run", *OPTIONS, words=("family", "stubborn")) as run,
        Run(url, tmp_path / "ignoring", *OPTIONS, "--on-lost", "ignore", lock="y") as ignoring,
    ):
        for lock, one in (("x", run), ("y", ignoring)):
            one.until("child")
            (contender,) = store.contenders(lock)
            store.remove(contender)
        removed_at = boot_time()
        assert run.gone_at() - removed_at < TTL_S + GRACE_S  # a renewal tells it, after TTL_S / 3 at most
        code, said, report = run.ended()
        assert (code, report["outcome"]) == (codes.LOST, "lost")
        assert report["command_code"] in (137, STARVED)
        assert "removed" in said
        ignoring.until_said("removed")  # its own renewal, which may come later
        assert ignoring.running() != []
        ignoring.signal(signal.SIGTERM)
        code, _, report = ignoring.ended()
        assert (code, report["outcome"]) == (7, "exited")


@pytest.mark.long
def test_one_that_is_killed_or_stopped_has_no_command_when_the_next_holds(
    server: servers.Server, url: str, tmp_path: Path, nothing_left: None
) -> None:
    with (
        recipes.connect(url, session_timeout=TTL_S) as client,
        Run(url, tmp_path / "killed", *OPTIONS, words=("family", "stubborn"), lock="x") as killed,
        Run(url, tmp_path / "stopped", *OPTIONS, words=("family", "stubborn"), lock="y") as stopped,
    ):
        stopped.until("child").signal(signal.SIGSTOP)
        killed.until("child").signal(signal.SIGKILL)
        for lock, run in (("y", stopped), ("x", killed)):
            with client.lock(lock).acquire(timeout=30):
                assert run.running() == []
        stopped.signal(signal.SIGCONT)
        assert stopped.ended()[0] == codes.LOST
