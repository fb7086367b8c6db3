"""``recipes elect`` on a file: leading, losing, campaigning again, and what becomes of the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import recipes
from integration import servers
from integration.harness.terminal import CTRL_C, Terminal
from recipes.cli import codes
from recipes.cli.running import run as running
from recipes.cli.running.ending import Ending, Outcome
from recipes.cli.running.guard import _processes
from recipes.cli.running.signals import Signals, Struck
from tests.cli.runs import STRUCK, Run, recipes_run

SOON_S = 60.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


@pytest.fixture
def elect(url: str, tmp_path: Path) -> Callable[..., Run]:
    """Return what starts ``recipes elect x``, whose command stays until it is ended."""

    def start(name: str, *options: str, words: tuple[str, ...] = ()) -> Run:
        return Run(url, tmp_path / name, "--value", name, *options, words=words, by="elect")

    return start


def leading(client: recipes.Client) -> recipes.Leader:
    leader = client.election("x").leader()
    assert leader is not None
    return leader


def follows(client: recipes.Client, token: int) -> bool:
    """Whether there is a later leader."""
    leader = client.election("x").leader()
    return leader is not None and leader.token > token


def candidates(client: recipes.Client, count: int) -> bool:
    """Whether there are so many, the leader among them, soon."""
    return servers.eventually(lambda: len(client.election("x").contenders()) == count, SOON_S)


def test_a_signal_as_leadership_is_lost_hides_nothing_of_the_command(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said not to have been started, and the report had neither its end nor the token."""

    def struck(signals: Signals) -> None:
        raise Struck(signal.SIGTERM)

    lost = Ending(Outcome.LOST, codes.LOST, "expired", 143, 7)
    monkeypatch.setattr(running, "_once", lambda *_: lost)
    monkeypatch.setattr(Signals, "let_end", struck)
    order = running.Order("x", url, ("serve",), recipe="election", report=tmp_path / "report.json")
    assert running.run(order) == codes.SIGNALLED + signal.SIGTERM
    assert "SIGTERM as election 'x' was lost; serve was ended by SIGTERM" in capsys.readouterr().err
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["outcome"], report["command_code"], report["token"]) == ("interrupted", 143, 7)


def test_the_exit_code_is_the_command_s_and_it_resigns(url: str, tmp_path: Path) -> None:
    names = "ELECTION", "VALUE", "TOKEN", "STORE"
    print_it = (
        f"import os; print([os.environ['RECIPES_' + n] for n in {names}], 'RECIPES_LOCK' in os.environ)"
    )
    report = tmp_path / "report"
    words = ["--value", "10.0.0.3:80", "--report", str(report)]
    done = recipes_run(
        url, *words, "--", sys.executable, "-c", f"{print_it}; raise SystemExit(3)", by="elect"
    )
    said = json.loads(report.read_text())
    assert done.returncode == 3
    assert done.stdout == f"{['x', '10.0.0.3:80', str(said['token']), url]} False\n"
    assert done.stderr == f"recipes elect: leads election 'x' under token {said['token']}\n"
    assert (said["election"], said["outcome"], said["command_code"]) == ("x", "exited", 3)
    with recipes.connect(url) as client:
        assert client.election("x").contenders() == []


def test_others_see_host_and_process_unless_a_value_is_given(url: str, tmp_path: Path) -> None:
    with Run(url, tmp_path / "run", by="elect") as run, recipes.connect(url) as client:
        run.until("child")
        assert leading(client).value == f"{socket.gethostname()}:{run.process.pid}"


def test_one_leads_and_the_next_follows_when_its_command_has_ended(
    url: str, elect: Callable[..., Run]
) -> None:
    with elect("one", words=("family",)) as one, recipes.connect(url) as client:
        one.until("child")
        first = leading(client)
        with elect("two") as two:
            assert candidates(client, 2)
            assert not two.noted("child")
            one.signal(signal.SIGTERM)
            two.until("child")
            assert one.running() == []
            second = leading(client)
            assert (first.value, second.value, first.token < second.token) == ("one", "two", True)
            assert one.ended()[0] == 7


def test_after_a_loss_it_campaigns_again_and_runs_the_command_again(
    url: str, elect: Callable[..., Run]
) -> None:
    with elect("one", "--ttl", "8", words=("family", "stubborn")) as run, recipes.connect(url) as client:
        tokens = []
        for _ in range(3):
            run.until("child", "near", "far")
            tokens.append(leading(client).token)
            before = run.pids()
            run.forget("child", "near", "far")
            assert client.election("x").evict(tokens[-1])
            run.until("child", "near", "far")
            assert not {*run.pids()} & {*before}
            assert run.running() == run.pids()
        assert tokens == sorted({*tokens})
        assert run.said().count("was lost: its contender was removed from the store") == 3
        assert run.said().count("campaigning again") == 3
        run.signal(signal.SIGKILL)  # the guard ends what there is
        client.election("x").campaign(timeout=20)
        assert run.running() == []


def test_what_ended_with_a_loss_stays_no_zombie(url: str, elect: Callable[..., Run]) -> None:
    with elect("one", "--ttl", "15", words=("family", "stubborn")) as run, recipes.connect(url) as client:
        for stops_guard in (False, True):  # it is killed then, and its orphans become those of recipes elect
            run.until("child", "near", "far")
            if stops_guard:
                os.kill(run.guard, signal.SIGSTOP)
            run.forget("child", "near", "far")
            assert client.election("x").evict(leading(client).token)
            run.until("child")
            seen = [state for _, state, parent in _processes() if parent == run.process.pid]
            assert "Z" not in seen
            assert len(seen) == 1  # the guard


def test_stopped_past_its_session_its_command_is_ended_before_another_leads_and_then_it_campaigns(
    url: str, elect: Callable[..., Run]
) -> None:
    with (
        elect("one", "--ttl", "8", "--grace", "2", words=("family", "stubborn")) as run,
        recipes.connect(url) as client,
    ):
        run.until("child").signal(signal.SIGSTOP)
        with run.gone_before(ttl_s=8):
            leadership = client.election("x").campaign("another", timeout=20)
        with leadership:
            assert run.noted("child-SIGTERM")
            run.forget("child", "near", "far")
            run.signal(signal.SIGCONT)
            run.until_said("campaigning again")
            assert candidates(client, 2)
            assert not run.noted("child")
            assert leadership.held
        run.until("child")
        now = leading(client)
        assert (now.value, now.token > leadership.token) == ("one", True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_it_campaigns_leaves_no_candidate(
    url: str, elect: Callable[..., Run], tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "events"
    with recipes.connect(url) as client:
        with client.election("x").campaign("another"), elect("one", "--events", str(log)) as run:
            assert servers.eventually(lambda: log.exists() and "election.queued" in log.read_text(), SOON_S)
            run.signal(number)
            code, said, report = run.ended()
        assert (code, report["outcome"]) == (128 + number, "interrupted")
        assert f"recipes elect: {number.name} while waiting for election 'x'" in said
        assert client.election("x").contenders() == []


def test_a_signal_while_it_campaigns_after_a_loss_ends_it_too(url: str, elect: Callable[..., Run]) -> None:
    with (
        recipes.connect(url) as client,
        ThreadPoolExecutor(1) as pool,
        elect("one", "--ttl", "15") as run,
    ):
        run.until("child")
        another = pool.submit(lambda: client.election("x").campaign("another", timeout=SOON_S))
        assert candidates(client, 2)
        assert client.election("x").evict(leading(client).token)
        leadership = another.result()
        run.until_said("campaigning again")
        assert candidates(client, 2)
        run.signal(signal.SIGTERM)
        code, _, report = run.ended()
        assert (code, report["outcome"]) == (128 + signal.SIGTERM, "interrupted")
        assert [one.token for one in client.election("x").contenders()] == [leadership.token]


def test_one_that_was_asked_to_end_does_not_campaign_again(url: str, elect: Callable[..., Run]) -> None:
    with recipes.connect(url) as client, elect("one", "--ttl", "15", words=("stubborn",)) as run:
        run.until("child").signal(signal.SIGTERM)
        run.until("child-SIGTERM")
        assert client.election("x").evict(leading(client).token)
        code, said, report = run.ended()
        assert (code, report["outcome"]) == (128 + signal.SIGTERM, "interrupted")
        assert "election 'x' was lost" in said
        assert run.running() == []
        assert client.election("x").contenders() == []


def test_not_elected_in_time(url: str) -> None:
    with recipes.connect(url) as client, client.election("x").campaign():
        for timeout in ("0", "0.2"):
            done = recipes_run(url, "--timeout", timeout, "--", "true", by="elect")
            assert done.returncode == codes.NOT_ACQUIRED
            assert f"election 'x' was not won within {timeout} s" in done.stderr
        assert len(client.election("x").contenders()) == 1


def test_a_store_out_of_reach_as_it_begins() -> None:
    done = recipes_run("etcd://127.0.0.1:1/x", "--", "true", by="elect")
    assert done.returncode == codes.UNREACHABLE
    assert done.stderr.startswith("recipes elect: election 'x' was not won: no answer from 127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--"], codes.WRONG, "Missing argument"),
        (["ls", "-l"], codes.WRONG, "put -- before the command"),
        (["--grace", "6", "--", "true"], codes.WRONG, "more than a third of --ttl"),
        (["--shared", "--", "true"], codes.WRONG, "No such option"),
        (["--", "no-such-program"], codes.NOT_FOUND, "no-such-program could not be started"),
    ],
)
def test_what_cannot_be_run_is_said(url: str, words: list[str], code: int, said: str) -> None:
    done = recipes_run(url, *words, by="elect")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_the_command_has_the_keys_each_time(url: str) -> None:
    command = [*STRUCK, "elect", "x", "--ttl", "8", "--store", url, "--", "sh", "-c"]
    reads = 'echo "reads under $RECIPES_TOKEN"; while read line; do echo "read <$line>"; done'
    with recipes.connect(url) as client:
        leadership = client.election("x").campaign()
        with Terminal([*command, reads], environment={}) as terminal:
            terminal.until("waiting for election 'x', 1 ahead")
            leadership.release()
            token = leadership.token
            for key in ("first", "second"):
                assert servers.eventually(lambda before=token: follows(client, before), SOON_S)
                token = leading(client).token
                terminal.until(f"reads under {token}")
                terminal.press(key.encode() + b"\n")
                terminal.until(f"read <{key}>")
                assert client.election("x").evict(token)
            assert servers.eventually(lambda: follows(client, token), SOON_S)
            terminal.until(f"reads under {leading(client).token}")
            terminal.press(CTRL_C)
            assert terminal.ended() == 130
            assert terminal.attributes == terminal.before
        assert terminal.drawn.decode().count("campaigning again") == 2
