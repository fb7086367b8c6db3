"""``recipes ping``: what it measures, and what it says where nobody answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
