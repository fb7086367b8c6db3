"""``recipes elect`` when its leadership is lost on a real server: nothing runs on, and it campaigns again."""

from __future__ import annotations

import signal
from pathlib import Path

import recipes
from integration import servers
from integration.cli.test_run_losses import OPTIONS, TTL_S, on
from recipes._run.clock import boot_time
from tests.cli.runs import MARGIN, Run
from tests.pace import Pace


@on("zookeeper-3.8")
def test_an_outage_ends_the_command_in_time_and_not_the_campaign(
    server: servers.Server, prefix: str, url: str, tmp_path: Path
) -> None:
    with (
        Pace() as pace,
        Run(url, tmp_path / "run", *OPTIONS, words=("family", "stubborn"), by="elect") as run,
    ):
        run.until("child")
        with recipes.connect(url) as client:
            first = client.election("x").leader()
        server.pause()
        stopped_at = boot_time()
        try:
            run.gone_at()
            assert boot_time() - stopped_at < TTL_S + pace.late_s(stopped_at + TTL_S * (1 - MARGIN))
            assert run.noted("child-SIGTERM")
            run.until_said("campaigning again")
            run.forget("child", "near", "far")
            assert run.process.poll() is None
        finally:
            server.resume()
        run.until("child")
        with recipes.connect(url) as client:
            now = client.election("x").leader()
        assert first is not None
        assert now is not None
        assert now.token > first.token
        run.signal(signal.SIGKILL)
        run.gone_at()
    servers.settle(server, prefix)
    servers.clean(server, prefix)


@on("etcd-3.5")
def test_stopped_or_killed_it_has_no_command_when_another_leads(
    server: servers.Server, prefix: str, url: str, tmp_path: Path
) -> None:
    with (
        recipes.connect(url, session_timeout=TTL_S) as client,
        Run(url, tmp_path / "killed", *OPTIONS, words=("family", "stubborn"), lock="x", by="elect") as killed,
        Run(url, tmp_path / "stopped", *OPTIONS, words=("family",), lock="y", by="elect") as stopped,
    ):
        stopped.until("child").signal(signal.SIGSTOP)
        killed.until("child").signal(signal.SIGKILL)
        for name, run in (("y", stopped), ("x", killed)):
            with client.election(name).campaign(timeout=30) as leadership:
                assert run.running() == []
                if run is stopped:
                    run.forget("child", "near", "far")
                    run.signal(signal.SIGCONT)
                    run.until_said("campaigning again")
                    assert servers.eventually(lambda: len(client.election("y").contenders()) == 2, 30)
                    assert leadership.held
        stopped.until("child").signal(signal.SIGTERM)
        assert stopped.ended()[0] == 7
    servers.settle(server, prefix)
    servers.clean(server, prefix)
