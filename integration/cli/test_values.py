"""``recipes get``, ``set``, ``watch-value`` and ``count`` on servers, each a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

import recipes
from integration import servers
from tests.children import child
from tests.cli.runs import RECIPES

NOT_UTF8 = b"\xff\x00\r\nend"


@pytest.mark.parametrize("server", servers.CONSENSUS, indirect=True)
def test_processes_share_a_value_and_a_counter(
    server: servers.Server, prefix: str, nothing_left: None
) -> None:
    url = server.url(prefix)

    def said(*words: str, given: bytes = b"", code: int = 0) -> bytes:
        command = [*RECIPES, *words, "--store", url]
        done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=180)
        assert done.returncode == code, done.stderr
        return done.stdout

    assert said("get", "a/b", code=1) == b""
    watch = [*RECIPES, "watch-value", "a/b", "--json", "--store", url]
    with child(watch, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "null\n"
        said("set", "a/b", "-", given=NOT_UTF8)
        seen = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
    assert said("get", "a/b") == NOT_UTF8
    assert json.loads(said("get", "a/b", "--json")) == seen
    said("set", "a/b", "two", "--if-version", str(seen["version"]))
    said("set", "a/b", "three", "--if-version", str(seen["version"]), code=1)
    assert said("get", "a/b") == b"two"
    assert [said("count", "n", "--add", "2") for _ in range(2)] == [b"2\n", b"4\n"]
    with recipes.connect(url) as client:
        assert client.counter("n").get() == 4
