"""``recipes ls``, ``who``, ``watch`` and ``break``, on a file and on servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration import servers
from integration.cli.runs import RECIPES, Run
from integration.harness.terminal import CTRL_C, Terminal
from integration.stores import store_on
from recipes.cli import codes, main

CROWD = 1000
WITHIN_S = 1.0


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = f"sqlite://{tmp_path}/locks.db"
    monkeypatch.setenv("RECIPES_STORE", found)
    return found


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return what runs a command in this process, and returns its JSON."""

    def ask(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture
def queue(url: str, tmp_path: Path) -> Iterator[tuple[Run, recipes.Client]]:
    """Yield a command that holds the lock, and a client of which a thread waits for it."""
    with (
        Run(url, tmp_path / "run", "--owner", "the holder", "--ttl", "4") as run,
        recipes.connect(url, owner="the looker") as client,
    ):
        run.until("child")
        yield run, client


def test_who_holds_and_who_waits(
    queue: tuple[Run, recipes.Client],
    tmp_path: Path,
    url: str,
    asked: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, client = queue
    with Run(url, tmp_path / "other", "--shared") as other:
        assert servers.eventually(lambda: len(client.lock("x").contenders()) == 2, 20)
        found = asked("who", "x")
        ((holder,), (waiter,)) = found["holders"], found["waiters"]
        assert (holder["owner"], holder["host"]) == ("the holder", socket.gethostname())
        assert (holder["pid"], waiter["pid"]) == (run.process.pid, other.process.pid)
        assert (holder["mode"], waiter["mode"], waiter["position"]) == ("exclusive", "shared", 1)
        assert waiter["owner"].startswith("python")  # the program, without its arguments
        assert (found["strangers"], found["more"]) == ([], False)
        assert asked("who", "x", "--limit", "1")["more"]
        (listed,) = asked("ls")
        assert listed == {"lock": "x", "holders": 1, "waiters": 1, "tokens": [holder["token"]]}
        assert main(["who", "x"]) == main(["ls"]) == 0
        said = capsys.readouterr().out
        assert f"holds  exclusive  {holder['token']}  the holder" in said
        other.signal(signal.SIGTERM)
        other.ended()


def test_nobody(url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("ls") == []
    assert asked("who", "x")["holders"] == []
    assert main(["ls"]) == main(["who", "x"]) == 0
    said = capsys.readouterr().out
    assert "nobody holds a lock here" in said
    assert "nobody holds it, and nobody waits" in said


def test_the_shell_completes_the_names_of_locks(url: str) -> None:
    def completed(typed: str, store: str = url) -> list[str]:
        words = {
            "COMP_WORDS": f"recipes who {typed}",
            "COMP_CWORD": "2",
            "_RECIPES_COMPLETE": "bash_complete",
        }
        env = {**os.environ, "RECIPES_STORE": store, **words}
        done = subprocess.run(RECIPES, env=env, capture_output=True, text=True, check=False)
        return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]

    with recipes.connect(url) as client, client.lock("a/one"), client.lock("a/two"), client.lock("b"):
        assert completed("a/") == ["a/one", "a/two"]
        assert completed("x") == []
        assert completed("a", store="etcd://127.0.0.1:1/x") == []


def test_a_store_out_of_reach(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--store", "etcd://127.0.0.1:1/x"]) == codes.UNREACHABLE
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_break_removes_the_holder_that_was_seen_and_nobody_else(
    queue: tuple[Run, recipes.Client], asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run, client = queue
    (holder,) = asked("who", "x")["holders"]
    assert main(["break", "x", "--token", str(holder["token"] + 1), "--yes"]) == 1
    assert "nobody at lock 'x' has token" in capsys.readouterr().err
    assert run.running() != []
    assert main(["break", "x", "--token", str(holder["token"]), "--yes"]) == 0
    assert "the holder" in capsys.readouterr().err
    with client.lock("x").acquire(timeout=5) as grant:
        assert grant.token > holder["token"]
        assert run.ended()[0] == codes.LOST  # and nothing of it runs
        assert run.running() == []
        assert grant.verify()


def test_break_asks_and_not_without_a_terminal(queue: tuple[Run, recipes.Client], url: str) -> None:
    _, client = queue
    (holder,) = client.lock("x").holders()
    command = [*RECIPES, "break", "x", "--token", str(holder.token), "--store", url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, "say --yes" in done.stderr) == (2, True)
    for answer, code, left in ((b"n\n", 1, 1), (CTRL_C, 130, 1), (b"y\n", 0, 0)):
        with Terminal(command, environment={}) as terminal:
            terminal.until("Remove it?")
            terminal.press(answer)
            assert terminal.ended() == code
        assert len(client.lock("x").contenders()) == left


def test_watch_on_a_terminal_and_in_a_pipe(url: str) -> None:
    watch = [*RECIPES, "watch", "x", "--store", url, "--interval", "0.1"]
    with recipes.connect(url, owner="seen") as client:
        piped = subprocess.Popen(watch, stdout=subprocess.PIPE, text=True)
        assert piped.stdout is not None
        with Terminal(watch, environment={}) as terminal, piped:
            terminal.until("nobody holds it")
            assert "nobody holds it; 0 wait" in piped.stdout.readline()
            with client.lock("x") as grant:
                terminal.until("seen")
                assert f"token {grant.token}: seen" in piped.stdout.readline()
            assert "nobody holds it" in piped.stdout.readline()
            terminal.press(CTRL_C)
            assert terminal.ended() == 130
            assert terminal.attributes == terminal.before
            piped.send_signal(signal.SIGINT)
            assert piped.wait(10) == 130


@pytest.mark.parametrize("server", ["etcd-3.5", "zookeeper-3.8"], indirect=True)
def test_others_are_shown_as_what_they_are(
    server: servers.Server, prefix: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--store", server.url(prefix))
    store = store_on(server, prefix)
    with recipes.connect(server.url(prefix)) as client:
        with client.lock("x"):  # on ZooKeeper there has to be a node to plant below
            pass
        planted = store.plant("x", "foreign")
        malformed = store.plant("x", "malformed")
        found = asked("who", "x", *where)
        everybody = [*found["holders"], *found["waiters"]]
        assert all(one["foreign"] for one in everybody)
        shown = [one["key"] for one in everybody]
        assert any(planted.endswith(key.rpartition("/")[2]) for key in shown)
        name = malformed.rpartition("/")[2]
        assert any(name in text for text in (*shown, *found["strangers"]))
        assert main(["who", "x", *where]) == 0
        assert "of another kind of client" in capsys.readouterr().out
        for one in everybody:
            assert main(["break", "x", "--token", str(one["token"]), "--yes", *where]) == 0
        assert client.lock("x").contenders() == []
    servers.clean(server, prefix)


@pytest.mark.long
@pytest.mark.parametrize("where", ["file", "etcd-3.4", "etcd-3.5", "zookeeper-3.8"])
def test_who_on_a_crowd_answers_within_a_second(
    request: pytest.FixtureRequest, where: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    if where != "file":
        fixture = {"etcd-3.4": "etcd34", "etcd-3.5": "etcd35", "zookeeper-3.8": "zookeeper"}[where]
        url = request.getfixturevalue(fixture).start().url(f"t-{os.getpid()}")

    async def crowd() -> float:
        async with recipes.connect_async(url, session_timeout=60, owner="one of many") as client:
            async with client.lock("x"):
                waiting = [asyncio.create_task(client.lock("x").acquire()) for _ in range(CROWD)]
                async with asyncio.timeout(60):
                    await until_all_wait(client)
                took = min([await asyncio.to_thread(timed) for _ in range(3)])
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return took

    async def until_all_wait(client: recipes.AsyncClient) -> None:
        while len(await client.lock("x").contenders(limit=10_000)) <= CROWD:  # noqa: ASYNC110 - only it knows
            await asyncio.sleep(0.2)

    def timed() -> float:
        began = time.perf_counter()
        command = [*RECIPES, "who", "x", "--store", url, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        took = time.perf_counter() - began
        assert len(json.loads(done.stdout)["waiters"]) == CROWD
        return took

    took = asyncio.run(crowd())
    figure(f"answered in {took:.2f} s, with the start of the interpreter")
    assert took < WITHIN_S
