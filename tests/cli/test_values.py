"""``recipes get``, ``set``, ``watch-value`` and ``count``, on a file."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration.harness.terminal import CTRL_C, Terminal
from recipes.cli import codes, main
from tests.children import child
from tests.cli.runs import RECIPES, STRUCK

NOT_UTF8 = b"\xff\x00\r\nend"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = f"sqlite://{tmp_path}/values.db"
    monkeypatch.setenv("RECIPES_STORE", found)
    return found


def piped(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, with pipes for standard input and output."""
    return subprocess.run([*RECIPES, *words], input=given, capture_output=True, check=False, timeout=180)


def test_what_is_set_is_printed_byte_by_byte(url: str) -> None:
    assert piped("set", "x", "-", given=NOT_UTF8).returncode == 0
    done = piped("get", "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, NOT_UTF8, b"")
    done = piped("set", "x", "grün")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert piped("get", "x").stdout == "grün".encode()
    assert piped("set", "x", "-").returncode == 0
    assert piped("get", "x").stdout == b"", "an empty value is a value"


@pytest.mark.parametrize("line", ["get x", "get x --json", "count n --add 1", "who x", "--help"])
def test_what_cannot_be_written_is_said(url: str, line: str) -> None:
    assert main(["set", "x", "on"]) == 0
    command = [*RECIPES, *line.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (codes.FAILED, b"recipes: [Errno 28] No space left on device\n")


def test_streams_that_were_closed_are_as_empty_ones(url: str) -> None:
    command = shlex.join(RECIPES)
    for line in ("set x - <&-", "get x >&-", "who x >&-", "who x --json 2>&-", "run x -- true <&- >&- 2>&-"):
        words, closed = line.split(" ", 1)
        done = subprocess.run(
            ["sh", "-c", f"{command} {words} {closed}"], capture_output=True, check=False, timeout=180
        )
        assert (done.returncode, done.stderr) == (0, b""), line


def test_no_value_is_an_answer(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "x"]) == codes.FAILED
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "recipes get: there is no value 'x'\n")
    assert main(["get", "x", "--json"]) == codes.FAILED
    said = capsys.readouterr()
    assert (said.out, said.err) == ("null\n", "recipes get: there is no value 'x'\n")


def test_json_has_the_version_and_every_byte(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with recipes.connect(url) as client:
        client.value("a/b").set(NOT_UTF8)
        there = client.value("a/b").get()
    assert there is not None
    assert main(["get", "a/b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"name": "a/b", "data": "\udcff\x00\r\nend", "version": there.version}
    assert found["data"].encode("utf-8", "surrogateescape") == NOT_UTF8


def test_a_terminal_gets_lines_without_control_characters(url: str) -> None:
    with recipes.connect(url) as client:
        client.value("x").set(b"first\x1b[2J\n\xffsecond")
    with Terminal([*RECIPES, "get", "x"], environment={}) as terminal:
        assert terminal.ended() == 0
        assert terminal.drawn == b"first\\x1b[2J\r\n\\xffsecond\r\n"
        assert terminal.attributes == terminal.before


def test_an_empty_value_is_an_empty_line_on_a_terminal(url: str) -> None:
    with recipes.connect(url) as client:
        client.value("x").set(b"")
    with Terminal([*RECIPES, "get", "x"], environment={}) as terminal:
        assert terminal.ended() == 0
        assert terminal.drawn == b"\r\n"


def test_a_value_is_written_only_at_the_version_that_was_read(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def version() -> str:
        capsys.readouterr()
        assert main(["get", "x", "--json"]) == 0
        return str(json.loads(capsys.readouterr().out)["version"])

    assert main(["set", "x", "one", "--if-version", "0"]) == 0
    assert main(["set", "x", "again", "--if-version", "0"]) == codes.FAILED
    assert capsys.readouterr().err == "recipes set: value 'x' exists; nothing was written\n"
    before = version()
    assert main(["set", "x", "two", "--if-version", before]) == 0
    assert main(["set", "x", "three", "--if-version", before]) == codes.FAILED
    said = f"recipes set: value 'x' does not have version {before}; nothing was written\n"
    assert capsys.readouterr().err == said
    assert int(version()) > int(before)
    with recipes.connect(url) as client:
        there = client.value("x").get()
        assert there is not None
        assert there.data == b"two"


def test_a_value_that_begins_with_a_dash_comes_after_two(url: str) -> None:
    assert main(["set", "x", "--", "-1"]) == 0
    assert piped("get", "x").stdout == b"-1"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["set", "x"], "Missing argument 'VALUE'"),
        (["set", "x", "v", "--if-version", "-1"], "-1 is not in the range"),
        (["set", "x", "v", "--if-version", "new"], "'new' is not a valid integer"),
        (["set", "", "v"], "Invalid value for 'NAME'"),
        (["get", ""], "Invalid value for 'NAME'"),
        (["count", "x", "--add", "1.5"], "'1.5' is not a valid integer"),
        (["count", "x", "--add", "9" * 4301], "is not a valid integer"),
    ],
)
def test_wrong_arguments_are_refused(
    url: str, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == codes.USAGE
    assert complaint in capsys.readouterr().err


def test_a_value_that_is_too_long_is_refused_before_the_store_is_asked() -> None:
    nowhere = ["--store", "etcd://127.0.0.1:1/x"]
    done = piped("set", "x", "-", *nowhere, given=b"x" * 1_000_001)
    assert done.returncode == codes.USAGE
    assert b"1000000 at most are allowed" in done.stderr
    done = piped("set", "x", "-", *nowhere, given=b"x" * 1_000_000)
    assert done.returncode == codes.UNREACHABLE


@pytest.mark.parametrize("words", [["get", "x"], ["set", "x", "v"], ["watch-value", "x"], ["count", "x"]])
def test_a_store_out_of_reach(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--store", "etcd://127.0.0.1:1/x"]) == codes.UNREACHABLE
    said = capsys.readouterr()
    assert "no answer from 127.0.0.1:1" in said.err
    assert said.out == ""


def test_a_write_of_unknown_outcome_is_not_said_to_have_failed(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(*_: Any) -> None:
        raise recipes.OutcomeUnknown("etcd1:2379", "cut off", recipe="value", name="x")

    monkeypatch.setattr(recipes.Value, "set", unknown)
    assert main(["set", "x", "v"]) == codes.UNREACHABLE
    assert "it is not known whether value 'x' was written" in capsys.readouterr().err


def test_what_is_counted(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["count", "orders", *words]) == 0
        return capsys.readouterr().out

    assert said() == "0\n"
    assert said("--start", "1000") == "1000\n"
    assert said("--add", "1", "--start", "1000") == "1001\n"
    assert said("--add", "-2") == "999\n"
    assert said() == "999\n"
    with recipes.connect(url) as client:
        assert client.counter("orders").get() == 999
        assert client.value("orders").get() is None


def test_a_sum_that_is_too_long_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "x", "--add", "9" * 4300]) == 0
    capsys.readouterr()
    assert main(["count", "x", "--add", "1"]) == codes.USAGE
    assert "more than 4300 digits" in capsys.readouterr().err


def test_every_change_is_a_line_until_it_is_interrupted(url: str) -> None:
    watch = [*STRUCK, "watch-value", "x"]
    with (
        recipes.connect(url) as client,
        child(watch, stdout=subprocess.PIPE, text=True) as lines,
        child([*watch, "--json"], stdout=subprocess.PIPE, text=True) as objects,
    ):
        assert lines.stdout is not None
        assert objects.stdout is not None
        value = client.value("x")
        assert lines.stdout.readline().endswith(" no value\n")
        assert objects.stdout.readline() == "null\n"
        value.set(b"one\ntwo\xff")
        there = value.get()
        assert there is not None
        assert lines.stdout.readline().endswith(f" version {there.version}: one\\ntwo\\xff\n")
        assert json.loads(objects.stdout.readline()) == {
            "name": "x",
            "data": "one\ntwo\udcff",
            "version": there.version,
        }
        assert value.delete()
        assert lines.stdout.readline().endswith(" no value\n")
        assert objects.stdout.readline() == "null\n"
        for process in (lines, objects):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130


def test_a_change_is_shown_on_a_terminal_and_ctrl_c_ends_it(url: str) -> None:
    with (
        recipes.connect(url) as client,
        Terminal([*STRUCK, "watch-value", "x"], environment={}) as terminal,
    ):
        terminal.until("no value")
        client.value("x").set(b"seen")
        terminal.until(": seen")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert terminal.attributes == terminal.before
