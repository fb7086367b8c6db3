"""``recipes ping``: what it measures, and what it says where nobody answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import testing
from recipes.cli import codes, main


def test_it_says_what_it_took_and_what_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    assert main(["ping", "--store", url, "--json", "--count", "3", "--ttl", "7"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["answers"], found["session_timeout_s"]) == (url, True, 7.0)
    assert found["read_s"]["count"] == 3
    assert 0 < found["read_s"]["least"] <= found["read_s"]["median"] <= found["read_s"]["most"]
    assert found["guarantees"]["scope"] == "machine"
    assert main(["ping", "--store", url]) == 0
    said = capsys.readouterr().out
    for words in (f"{url} answers", "the median of 10", "linearizable, fencing, durable", "a power cut"):
        assert words in said


@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_nobody_answers(json_too: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ping", "--store", "etcd://127.0.0.1:1/x", *json_too]) == codes.UNREACHABLE
    out, err = capsys.readouterr()
    assert "recipes ping: no answer from 127.0.0.1:1" in err
    assert bool(out) == bool(json_too)
    if json_too:
        assert json.loads(out)["answers"] is False


@pytest.mark.parametrize("like", ["memcached", "redlock"])
def test_a_store_that_has_one_holder_answers_too(like: str, capsys: pytest.CaptureFixture[str]) -> None:
    with testing.Store(like) as store:
        assert main(["ping", "--store", store.url, "--count", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["guarantees"]["shared"] is False
        assert main(["ping", "--store", store.url]) == 0
        assert "promises   fencing, durable; for the processes of one cluster" in capsys.readouterr().out


def test_no_part_of_a_password_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    url = "redis://app:s3cr@t-word@127.0.0.1:1/0"
    assert main(["ping", "--store", url, "--request-timeout", "0.3", "--json"]) == codes.UNREACHABLE
    out, err = capsys.readouterr()
    assert json.loads(out)["store"] == "redis://127.0.0.1:1/0"
    assert "t-word" not in out + err


def test_options_of_the_store_may_say_how_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    connect = recipes.connect

    def connected(url: str, **options: Any) -> recipes.Client:
        asked.append(options["request_timeout"])
        return connect(url, **options)

    def ping(*words: str) -> list[float]:
        assert main(["ping", "--store", f"sqlite://{tmp_path}/locks.db", "--json", *words]) == 0
        return [json.loads(capsys.readouterr().out)["session_timeout_s"], asked[-1]]

    monkeypatch.setattr(recipes, "connect", connected)
    monkeypatch.setenv("RECIPES_STORE_OPTIONS", "session_timeout=7 request_timeout=2")
    assert ping() == [7, 2]
    assert ping("--ttl", "9", "--request-timeout", "3") == [9, 3], "what the command line says itself wins"
