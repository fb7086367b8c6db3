"""The command line: what is refused before anything starts, and what is understood."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes._contract.backend import Backend
from recipes.cli import HOW_TO_HAVE_IT, codes, main
from recipes.cli.command import commands
from recipes.cli.demo import command
from recipes.cli.demo.command import Plan
from recipes.cli.options import without_secret
from recipes.cli.running import command as running
from recipes.cli.running.run import Order
from recipes.stores.sqlite import SqliteBackend


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    plans: list[Plan] = []

    def show(plan: Plan) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr(command, "show", show)
    return plans


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--processes", "0"], "a whole number of at least 1, not '0'"),
        (["--processes", "two"], "not 'two'"),
        (["--rounds", "-1"], "a whole number of at least 1"),
        (["--rounds", "1.5"], "a whole number of at least 1"),
        (["--seconds", "0"], "a number of seconds above 0"),
        (["--seconds", "inf"], "a number of seconds above 0"),
        (["--seconds", "nan"], "a number of seconds above 0"),
        (["--seconds", "soon"], "not 'soon'"),
        (["--rounds", "1", "--seconds", "1"], "not allowed with"),
        (["--json", "--plain"], "not allowed with"),
        (["--store", "memory://"], "does not give many_processes"),
        (["--store", "memory://x"], "does not give many_processes"),
        (["--store", "mongodb://x"], "unknown store 'mongodb'"),
        (["--store", "etcd://host/?x=1"], "no ?query"),
        (["--store", ""], "unknown store ''"),
        (["--store", "etcd"], "unknown store ''"),
        (["--store", "redis://h", "--ttl", "60"], "session_timeout=60 is longer than restart_grace=20"),
        (["--store", "redis+cluster://h"], "replicas= is missing"),
        (["--unheard-of"], "No such option"),
        (["more"], "unexpected extra argument"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    planned: list[Plan], capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["demo", *arguments]) == 2
    assert complaint in _unwrapped(capsys)
    assert planned == []


@pytest.mark.parametrize(
    ("arguments", "plan"),
    [
        ([], {"store": None, "processes": 5, "rounds": None, "seconds": None, "as_json": False}),
        (["--plain"], {"as_json": False, "plain": True}),
        (["--slowly", "--ttl", "3"], {"slowly": True, "ttl": 3.0}),
        (["--processes", "2", "--rounds", "7"], {"processes": 2, "rounds": 7}),
        (["--seconds", "1.5", "--json"], {"rounds": None, "seconds": 1.5, "as_json": True}),
        (["--store", "etcd://h/p"], {"store": "etcd://h/p"}),
    ],
)
def test_arguments_become_a_plan(planned: list[Plan], arguments: list[str], plan: dict[str, Any]) -> None:
    assert main(["demo", *arguments]) == 0
    assert {name: getattr(planned[0], name) for name in plan} == plan


def test_a_demo_takes_the_options_of_its_store(planned: list[Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["demo", "--store", "redis://h", "--store-option", "prefix=7"]) == 0
    monkeypatch.setenv("RECIPES_STORE_OPTIONS", "prefix=7")
    assert main(["demo"]) == 0, "on a file of its own"
    assert [plan.options for plan in planned] == [{"prefix": "7"}, {}]


@pytest.mark.parametrize(("given", "switched"), [("true", True), ("False", False)])
def test_a_demo_has_its_tables_made_by_an_option(planned: list[Plan], given: str, switched: bool) -> None:
    store = ["demo", "--store", "postgresql://h/d", "--store-option", f"create_tables={given}"]
    assert main(store) == 0
    assert planned[0].options == {"create_tables": switched}


def test_a_demo_has_the_session_of_its_store(planned: list[Plan]) -> None:
    store = ["demo", "--store", "redis://h", "--store-option", "session_timeout=12"]
    assert main(store) == 0
    assert main([*store, "--ttl", "8"]) == 0
    assert [plan.ttl for plan in planned] == [12, 8]


def test_without_a_command_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_a_url_that_is_none_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "schema", "--url", "postgresql://[::1"]) == codes.USAGE
    assert "Invalid value for --url: Invalid IPv6 URL" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"recipes {recipes.__version__}\n"


@pytest.mark.parametrize("module", ["recipes", "recipes.cli"])
def test_as_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "demo", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: recipes demo")


def test_without_what_it_needs_it_says_how_to_have_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == f"{HOW_TO_HAVE_IT}\n"


@pytest.mark.parametrize("words", [["ls"], ["ping"], ["run", "x", "--", "true"]], ids=" ".join)
@pytest.mark.parametrize(
    ("store", "missing"),
    [("redis://h", "redis"), ("postgresql://h/d", "sqlalchemy"), ("mysql://h/d", "pymysql")],
)
def test_without_what_a_store_needs_it_says_how_to_have_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    store: str,
    missing: str,
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv("RECIPES_STORE", store)
    assert main(words) == (codes.WRONG if words[0] == "run" else codes.USAGE)
    assert f"pip install 'coordination-recipes[{store.partition(':')[0]}]'" in _unwrapped(capsys)


@pytest.mark.parametrize("command", [name for name in commands() if name != "completion"])
def test_help_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"\n    recipes {command} " in said
    assert "Exit codes" in said or command in ("stats", "timeline")
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_RECIPES_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_interrupted_it_says_so_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Plan) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "show", interrupt)
    assert main(["demo"]) == 130


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--store", "redis+cluster://127.0.0.1:1"], "replicas= is missing"),
        (["--store", "redis://127.0.0.1:1", "--store-option", "replicas"], "NAME=VALUE, not 'replicas'"),
        (["--store", "redis://127.0.0.1:1", "--store-option", "replcas=2"], "did you mean replicas=?"),
        (["--store", "sqlite:///tmp/x", "--store-option", "prefix=a"], "does not know the option 'prefix'"),
        (
            ["--store", "postgresql://127.0.0.1:1/d", "--store-option", "create_tables=1"],
            "create_tables is true or false, not '1'",
        ),
    ],
)
def test_options_of_the_store_are_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["ls", *arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("by_variable", [False, True])
def test_options_of_the_store_are_passed_on(monkeypatch: pytest.MonkeyPatch, by_variable: bool) -> None:
    made: list[dict[str, Any]] = []

    def connect(url: str, **options: Any) -> Any:
        made.append(options)
        raise recipes.StoreUnavailable(url, "it is none")

    monkeypatch.setattr(recipes, "connect", connect)
    monkeypatch.setenv("RECIPES_STORE", "redis+sentinel://s1/mymaster")
    given = ["replicas=2", "restart_grace=1.5", "prefix=a=", "username=7"]
    if by_variable:
        monkeypatch.setenv("RECIPES_STORE_OPTIONS", " ".join(given))
        arguments = []
    else:
        arguments = [word for one in given for word in ("--store-option", one)]
    with pytest.raises(recipes.StoreUnavailable):
        main(["ping", *arguments])
    options = {"replicas": 2, "restart_grace": 1.5, "prefix": "a=", "username": "7"}
    assert made == [{**options, "require": "many_processes"}]


def test_the_options_that_help_names_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "--help"]) == 0
    said = re.search(r"An option of connect\(\), such as (\w+)=\S+ or (\w+)=", _unwrapped(capsys))
    assert said is not None
    for name in said.groups():
        assert main(["ls", "--store", "rediss://127.0.0.1:1", "--store-option", f"{name}=no"]) == 2
        assert "does not know" not in _unwrapped(capsys)


@pytest.mark.parametrize("by", ["run", "elect"])
def test_a_command_without_a_name_is_not_run_under_its_first_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    orders: list[Order] = []
    monkeypatch.setattr(running, "run", lambda order: orders.append(order) or 0)
    store = ["--store", f"sqlite://{tmp_path}/locks.db"]
    for before in ([], ["--timeout", "5"]):
        assert main([by, *store, *before, "--", "echo", "date"]) == codes.WRONG
        assert "NAME is missing: it comes before --, and the command behind" in _unwrapped(capsys)
    assert main([by, *store, "--", "--help"]) == codes.WRONG
    assert orders == []
    timed = ["--timeout", "5", "x", "--", "echo", "--", "date"]
    for words in (["x", "--", "echo"], ["x", "echo"], ["x", "cat", "-"], timed):
        assert main([by, *store, *words]) == 0
    assert [order.name for order in orders] == ["x"] * 4
    assert orders[2].command == ("cat", "-")
    assert main([by, "--help", "--", "echo"]) == 0


@pytest.mark.parametrize("by", ["run", "elect"])
def test_options_of_the_store_may_say_what_the_command_line_leaves_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    orders: list[Order] = []
    monkeypatch.setattr(running, "run", lambda order: orders.append(order) or 0)
    monkeypatch.setenv("RECIPES_STORE_OPTIONS", "session_timeout=30 owner=me require=fair")
    words = [by, "x", "--store", f"sqlite://{tmp_path}/locks.db"]
    given = ["--ttl", "10", *(["--owner", "you"] if by == "run" else [])]
    assert main([*words, "--", "true"]) == 0
    assert main([*words, *given, "--", "true"]) == 0
    seen = [(order.ttl_s, order.grace_s, order.owner) for order in orders]
    assert seen == [(30, 6, "me"), (10, 2, "you" if by == "run" else "me")]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("session_timeout=1", "session_timeout"),
        ("session_timeout=soon", "session_timeout"),
        ("request_timeout=0", "request_timeout"),
        ("require=many_machines", "does not give many_machines"),
        ("owner=", "owner is 1 to"),
    ],
)
@pytest.mark.parametrize("words", [["ls"], ["ping"], ["run", "x"], ["elect", "x"]], ids=" ".join)
def test_options_that_no_store_can_have_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], given: str, complaint: str
) -> None:
    command = ["--", "true"] if len(words) > 1 else []
    store = ["--store", f"sqlite://{tmp_path}/locks.db", "--store-option", given]
    assert main([*words, *store, *command]) == (codes.WRONG if command else codes.USAGE)
    said = _unwrapped(capsys)
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "words",
    [
        ["run", "{}", "--", "true"],
        ["run", "{}", "--shared", "--", "true"],
        ["elect", "{}", "--", "true"],
        *(["who", "{}", "--of", recipe] for recipe in ("lock", "semaphore", "election", "group")),
        ["watch", "{}"],
        ["break", "{}", "--token", "1", "--yes"],
        ["members", "{}"],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_a_name_that_its_store_has_no_room_for_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    def check_name(_: Backend, queue: str) -> None:
        if len(queue) > 64:
            raise ValueError("the name is too long for this store")

    monkeypatch.setattr(SqliteBackend, "check_name", check_name)
    store = ["--store", f"sqlite://{tmp_path}/locks.db"]
    by, name, *more = (word.format("n" * 80) for word in words)
    assert main([by, name, *store, *more]) == (codes.WRONG if by in ("run", "elect") else codes.USAGE)
    said = _unwrapped(capsys)
    assert "Error: the name is too long for this store" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://app:s3cr@t-word@h:1/0", "redis://h:1/0"),
        ("redis://:secret@h:1", "redis://h:1"),
        ("postgresql+psycopg://app:a@@h,i/x", "postgresql+psycopg://h,i/x"),
        ("etcd://h:1/x", "etcd://h:1/x"),
        ("sqlite:///home/a@b/x", "sqlite:///home/a@b/x"),
    ],
)
def test_a_store_is_shown_without_its_secret(url: str, shown: str) -> None:
    assert without_secret(url) == shown


def _unwrapped(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize("command", ["run", "elect"])
def test_a_session_that_the_store_cannot_have_is_refused(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "x", "--store", "redis://127.0.0.1:1", "--ttl", "60", "--", "true"]) in (2, 125)
    assert "session_timeout=60 is longer than restart_grace=20" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["run", "ls", "who", "get", "ping"])
def test_a_command_loads_no_library_that_others_need(command: str) -> None:
    program = (
        "import sys; from recipes.cli.command import root, click; "
        f"root.get_command(click.Context(root), {command!r}); "
        "print(*{'rich', 'html', 'asyncio', 'structlog', 'tenacity', 'recipes.cli.demo'} & {*sys.modules})"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=own, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
