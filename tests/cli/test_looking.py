"""``recipes ls``, ``who``, ``watch`` and ``break``, on a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration import servers
from integration.harness.terminal import CTRL_C, Terminal
from recipes.cli import codes, main
from recipes.cli.looking import command as looking_command
from recipes.cli.looking import members
from recipes.cli.looking import queue as looking_queue
from recipes.cli.looking.queue import Queue, follow, long
from tests.children import child
from tests.cli.recording import drawn
from tests.cli.runs import RECIPES, STRUCK, Run


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
        Run(url, tmp_path / "run", "--owner", "the holder", "--ttl", "15") as run,
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
        assert not asked("who", "x", "--limit", "2")["more"]
        (listed,) = asked("ls", "--limit", "1")
        assert listed == {"lock": "x", "holders": 1, "waiters": 1, "tokens": [holder["token"]], "more": False}
        assert main(["who", "x"]) == main(["ls"]) == 0
        said = capsys.readouterr().out
        assert f"holds  exclusive  {holder['token']}  the holder" in said
        other.signal(signal.SIGTERM)
        other.ended()


def test_what_holds_permits_and_how_many(
    url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with recipes.connect(url, owner="trainer") as client:
        grant = client.semaphore("gpu", 4).acquire(3)
        (holder,) = asked("who", "gpu", "--of", "semaphore")["holders"]
        assert (holder["weight"], holder["id"], holder["token"]) == (3, grant.id, None)
        assert asked("who", "gpu")["holders"] == []
        assert main(["who", "gpu", "--of", "semaphore"]) == 0
        said = capsys.readouterr().out
        assert "permits" in said
        assert f"holds        3  {grant.id}  trainer" in said
        assert main(["break", "gpu", "--yes"]) == 2
        assert main(["break", "gpu", "--id", grant.id, "--yes"]) == 2
        assert "say --of semaphore" in capsys.readouterr().err
        remove = ["break", "gpu", "--of", "semaphore", "--yes", "--id"]
        assert main([*remove, "nothing"]) == codes.FAILED
        assert "nobody at semaphore 'gpu' has id nothing" in capsys.readouterr().err
        assert main([*remove, grant.id]) == 0
        assert f"holds it, permits 3, id {grant.id}: trainer" in capsys.readouterr().err
        assert client.semaphore("gpu", 4).holders() == []


def test_another_kind_of_contender_in_a_semaphore_is_removed_by_its_token(
    url: str, tmp_path: Path, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with recipes.connect(url) as client:
        client.semaphore("gpu", 4).acquire()
        with contextlib.closing(sqlite3.connect(tmp_path / "locks.db")) as db, db:
            db.execute("UPDATE contender SET kind = 'Z'")
        (holder,) = asked("who", "gpu", "--of", "semaphore")["holders"]
        assert (holder["weight"], holder["token"] > 0) == (None, True)
        assert main(["who", "gpu", "--of", "semaphore"]) == 0
        assert f"holds      all  token {holder['token']}" in capsys.readouterr().out
        assert main(["break", "gpu", "--of", "semaphore", "--token", str(holder["token"]), "--yes"]) == 0
        assert f"holds it, all permits, token {holder['token']}" in capsys.readouterr().err
        assert client.semaphore("gpu", 4).contenders() == []


def test_what_leads_and_with_what_value(
    url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with recipes.connect(url, owner="one") as client:
        lead = client.election("e").campaign("10.0.0.3:80\n")
        found = asked("who", "e", "--of", "election")
        ((leader,), recipe) = found["holders"], found["recipe"]
        assert (leader["value"], leader["token"], leader["owner"]) == ("10.0.0.3:80\n", lead.token, "one")
        assert (recipe, found["lock"], found["waiters"]) == ("election", "e", [])
        assert asked("who", "e")["holders"] == []
        assert main(["who", "e", "--of", "election"]) == 0
        said = capsys.readouterr().out
        assert "election e" in said
        assert f"leads  10.0.0.3:80\\n  {lead.token}  one" in " ".join(said.split("   "))
        assert main(["break", "e", "--of", "election", "--token", str(lead.token + 1), "--yes"]) == 1
        assert "nobody at election 'e' has token" in capsys.readouterr().err
        assert main(["break", "e", "--of", "election", "--token", str(lead.token), "--yes"]) == 0
        assert f"leads, value 10.0.0.3:80\\n, token {lead.token}: one" in capsys.readouterr().err
        assert main(["who", "e", "--of", "election"]) == 0
        assert "nobody leads, and nobody campaigns" in capsys.readouterr().out


def test_who_is_a_member_and_who_waits_for_an_id(
    url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        recipes.connect(url) as client,
        recipes.connect(url) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        client.group("g").join(b"one", id="a")
        membership = client.group("g").join(b"two\xff", id="b")
        joining = pool.submit(lambda: other.group("g").join(id="a", timeout=60).release())
        assert servers.eventually(lambda: len(client.group("g").contenders()) == 3, 20)
        found = asked("who", "g", "--of", "group")
        assert [(one["member"], one["data"]) for one in found["holders"]] == [
            ("a", "one"),
            ("b", "two\udcff"),
        ]
        assert [one["member"] for one in found["waiters"]] == ["a"]
        assert asked("members", "g") == [{"id": "a", "data": "one"}, {"id": "b", "data": "two\udcff"}]
        assert main(["who", "g", "--of", "group"]) == main(["members", "g"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split()[:3] for line in said if "two" in line] == [
            ["member", "b", r"two\xff"],
            ["b", r"two\xff"],
        ]
        assert main(["break", "g", "--of", "group", "--token", str(membership.token), "--yes"]) == 0
        assert r"is a member, b, data two\xff, token" in capsys.readouterr().err
        assert [one["id"] for one in asked("members", "g")] == ["a"]
        first = client.group("g").holders()[0]
        assert client.group("g").evict(first.token)
        assert joining.result()
    assert main(["members", "g"]) == main(["who", "g", "--of", "group"]) == 0
    said_last = capsys.readouterr().out
    assert "nobody is a member\n" in said_last
    assert "nobody is a member, and nobody waits for an id" in said_last


def test_a_name_that_standard_output_cannot_have_is_escaped(url: str) -> None:
    words = [*RECIPES, "who", "caf\u00e9", "--store", url]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, env=ascii_only, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("caf\\xe9")


COLOURED = {**os.environ, "FORCE_COLOR": "1"}
DUMB = {"TERM": "dumb"}


def test_members_are_shown_live_on_a_terminal_and_in_a_pipe(url: str) -> None:
    watch = [*STRUCK, "members", "g", "--store", url, "--watch"]
    with recipes.connect(url) as client, contextlib.ExitStack() as stack:
        piped = stack.enter_context(child(watch, env=COLOURED, stdout=subprocess.PIPE, text=True))
        as_json = stack.enter_context(child([*watch, "--json"], stdout=subprocess.PIPE, text=True))
        terminal = stack.enter_context(Terminal(watch, environment={}))
        dumb = stack.enter_context(Terminal(watch, environment=DUMB))
        assert piped.stdout is not None
        assert as_json.stdout is not None
        terminal.until("nobody is a member")
        dumb.until(" 0 members\r\n")
        assert piped.stdout.readline().endswith(" 0 members\n")
        assert as_json.stdout.readline() == "[]\n"
        with client.group("g").join(b"first", id="a") as membership:
            assert piped.stdout.readline().endswith(" a joined; 1 member\n")
            assert as_json.stdout.readline() == '[{"id": "a", "data": "first"}]\n'
            terminal.until("first")
            dumb.until(" a joined; 1 member\r\n")
            membership.update(b"second")
            assert piped.stdout.readline().endswith(" a says second; 1 member\n")
            assert as_json.stdout.readline() == '[{"id": "a", "data": "second"}]\n'
            terminal.until("second")
        assert piped.stdout.readline().endswith(" a left; 0 members\n")
        for one in (terminal, dumb):
            one.press(CTRL_C)
            assert one.ended() == 130
            assert one.attributes == one.before
        for process in (piped, as_json):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130


def test_members_that_are_there_as_the_watch_begins(url: str) -> None:
    with recipes.connect(url) as client, client.group("g").join(id="a"), client.group("g").join(id="b"):
        watch = [*STRUCK, "members", "g", "--store", url, "--watch"]
        with child(watch, stdout=subprocess.PIPE, text=True) as piped:
            assert piped.stdout is not None
            assert piped.stdout.readline().endswith(" 2 members: a, b\n")
            piped.send_signal(signal.SIGINT)
            assert piped.wait(60) == 130


HOLDER = recipes.ContenderInfo(
    "x", 0, True, "exclusive", 1_099_511_627_877, False, True, "s", "app/x/1",
    "the nightly job", "build-17.example", 12_345, 0.0, "0e2b5e2f-6ac1-4c65-9a7f-0a2d1d7c3f11", 2,
)  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "said", "whole"),
    [
        ("lock", b"", "1099511627877"),
        ("semaphore", b"", "0e2b5e2f-6ac1-4c65-9a7f-0a2d1d7c3f11"),
        ("election", b"https://10.0.0.3:8080/" + b"v" * 90, "1099511627877"),
        ("group", b"worker-17\n" + b"d" * 90, "1099511627877"),
        ("group", b"worker-17\n" + b"d" * 90, "worker-17"),
    ],
)
def test_on_a_narrow_terminal_what_break_takes_is_whole(recipe: str, said: bytes, whole: str) -> None:
    lines = drawn(Queue("x", (replace(HOLDER, data=said),), recipe=recipe).drawn())
    assert any(whole in line.split() for line in lines)
    assert len(lines) == 3, "each contender has one line"
    assert any("…" in line for line in lines), "it is too narrow for all of it"


def test_on_a_narrow_terminal_members_are_whole_and_what_they_say_is_cut() -> None:
    lines = drawn(members._drawn("workers", (recipes.Member("worker-17", b"d" * 90),)))
    assert lines[-1].split() == ["worker-17", f"{'d' * 68}…"]


def test_names_and_reasons_of_others_move_no_cursor() -> None:
    """Any client of the store may have written them."""
    queue = Queue("x", (replace(HOLDER, key="app/\x1b[2Jx"),), foreign=("app/\x1b[2Jy is no contender",))
    shown = "\n".join([*drawn(queue.drawn()), queue.described(queue.contenders[0])])
    assert shown.count("\\x1b[2J") == 2
    assert "\x1b[2J" not in shown


def test_nobody(url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("ls") == []
    assert asked("who", "x")["holders"] == []
    assert main(["ls"]) == main(["who", "x"]) == 0
    said = capsys.readouterr().out
    assert "nobody holds a lock here" in said
    assert "nobody holds it, and nobody waits" in said


def test_that_there_are_more_locks_is_said(
    url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with recipes.connect(url) as client, client.lock("a"), client.lock("b"):
        assert [one["lock"] for one in asked("ls", "--limit", "2")] == ["a", "b"]
        assert capsys.readouterr().err == ""
        assert main(["ls", "--limit", "1", "--json"]) == 0
        shown = capsys.readouterr()
        assert [one["lock"] for one in json.loads(shown.out)] == ["a"]
        assert "there are more locks: see --limit" in shown.err


def test_of_a_queue_longer_than_is_ever_read_that_is_said(
    url: str, asked: Callable[..., Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (looking_command, looking_queue):
        monkeypatch.setattr(module, "READ_AT_ONCE", 2)
    with recipes.connect(url) as client, contextlib.ExitStack() as readers:
        for _ in range(3):
            readers.enter_context(client.rwlock("x").reader)
        (listed,) = asked("ls")
        assert (listed["holders"], listed["more"]) == (2, True)
        assert main(["ls"]) == 0
        assert capsys.readouterr().out.rstrip().endswith("0+")


def test_the_shell_completes_the_names_of_locks(url: str) -> None:
    def completed(typed: str, store: str = url, command: str = "who") -> list[str]:
        words = {
            "COMP_WORDS": f"recipes {command} {typed}",
            "COMP_CWORD": str(1 + len(command.split())),
            "_RECIPES_COMPLETE": "bash_complete",
        }
        env = {**os.environ, "RECIPES_STORE": store, **words}
        done = subprocess.run(RECIPES, env=env, capture_output=True, text=True, check=False)
        return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]

    with recipes.connect(url) as client, client.lock("a/one"), client.lock("a/two"), client.lock("b"):
        assert completed("a/") == ["a/one", "a/two"]
        assert completed("x") == []
        evil = ("a/$(touch x)", "a/;true", "a/b c", "a/*", "a/~", "a/'", "-a")
        with contextlib.ExitStack() as held:
            for name in evil:
                held.enter_context(client.lock(name))
            assert completed("a/") == ["a/one", "a/two"], "the shell would run them, or take them for others"
            assert completed("") == ["a/one", "a/two", "b"]
        assert completed("a", store="etcd://127.0.0.1:1/x") == []
        assert completed("a", command="break") == ["a/one", "a/two"]
        assert completed("a", command="run") == ["a/one", "a/two"]
        assert completed("a", command="members") == []
        assert completed("a", command="who --of election") == []


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


@pytest.mark.parametrize(("token", "code"), [("-5", 1), ("0", 2), ("x", 2)])
def test_break_takes_negative_tokens_as_strangers_have_them(
    queue: tuple[Run, recipes.Client], capsys: pytest.CaptureFixture[str], token: str, code: int
) -> None:
    assert main(["break", "x", "--token", token, "--yes"]) == code
    said = capsys.readouterr().err
    assert ("nobody at lock 'x' has token -5" in said) == (code == 1)
    assert (f"as recipes who shows it, not '{token}'" in said) == (code == 2)


def test_break_asks_and_not_without_a_terminal(queue: tuple[Run, recipes.Client], url: str) -> None:
    _, client = queue
    (holder,) = client.lock("x").holders()
    command = [*STRUCK, "break", "x", "--token", str(holder.token), "--store", url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, "say --yes" in done.stderr) == (2, True)
    for answer, code, left in ((b"n\n", 1, 1), (CTRL_C, 130, 1), (b"y\n", 0, 0)):
        with Terminal(command, environment={}) as terminal:
            terminal.until("Remove it?")
            if answer == CTRL_C:
                assert terminal.interrupt() == code
            else:
                terminal.press(answer)
                assert terminal.ended() == code
        assert len(client.lock("x").contenders()) == left


def test_watch_is_notified_of_changes_and_redraws_ages() -> None:
    with recipes.connect("memory://") as client:
        seen = follow(client, "x", 100, 3600, redrawn=False)
        assert next(seen).holders == []
        with client.lock("x") as grant:
            assert [one.token for one in next(seen).holders] == [grant.token]
        assert next(seen).holders == []
        seen.close()
        redrawn = follow(client, "x", 100, 0.01, redrawn=True)
        assert next(redrawn) == next(redrawn) == next(redrawn)
        redrawn.close()


def test_watch_on_a_terminal_and_in_a_pipe(url: str) -> None:
    watch = [*STRUCK, "watch", "x", "--store", url, "--interval", "0.1"]
    with (
        recipes.connect(url, owner="seen") as client,
        child(watch, env=COLOURED, stdout=subprocess.PIPE, text=True) as piped,
        Terminal(watch, environment={}) as terminal,
        Terminal(watch, environment=DUMB) as dumb,
    ):
        assert piped.stdout is not None
        terminal.until("nobody holds it")
        dumb.until("nobody holds it; 0 wait")
        assert "nobody holds it; 0 wait" in piped.stdout.readline()
        with client.lock("x") as grant:
            terminal.until("seen")
            dumb.until(f"token {grant.token}: seen")
            assert f"token {grant.token}: seen" in piped.stdout.readline()
        assert "nobody holds it" in piped.stdout.readline()
        for one in (terminal, dumb):
            one.press(CTRL_C)
            assert one.ended() == 130
            assert one.attributes == one.before
        piped.send_signal(signal.SIGINT)
        assert piped.wait(60) == 130


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (3600, "1 h"),
        (7_500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (277_200, "3 d 5 h"),
    ],
)
def test_times_are_written_as_people_read_them(seconds: float, words: str) -> None:
    assert long(seconds) == words
