"""The examples of ``docs/stores/redis.md``, on a Redis set up as that page says."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import recipes
from integration import servers
from integration.test_docs import python
from tests.docs.pages import ROOT, commands, example_on

pytestmark = pytest.mark.measured

EXAMPLES = ROOT / "docs/examples"
PASSWORD = "correct-horse"
SAYS = {
    "redis_lock.py": "one process at a time; token",
    "redis_own_client.py": "beside the lock: b'made' token",
}
EVERYTHING = [
    "counting.py",
    "electing.py",
    "entering_again.py",
    "inspecting.py",
    "meeting.py",
    "membership.py",
    "permits.py",
    "ready_latch.py",
    "several.py",
    "share_work.py",
    "sharing_reads.py",
    "sharing_values.py",
    "waiting.py",
]
"""Examples of all recipes; together they run every act of the script."""
ELSEWHERE = ["other", "least2"]
"""Prefixes which the user of the prefix ``least`` has nothing to do with."""


class Shell:
    """A shell in a folder, for which the server is at the address that the page names.

    Args:
        folder: The directory.
        server: The server.
        prefix: Instead of ``app``.
    """

    def __init__(self, folder: Path, server: servers.Redis, prefix: str) -> None:
        self._folder, self._server, self._prefix = folder, server, prefix
        self._env = os.environ | commands(folder / "bin")
        command = folder / "bin" / "redis-cli"
        beside = server.binary.with_name("redis-cli")
        words = [str(beside) if beside.exists() else "redis-cli", "-p", str(server.port)]
        path = shlex.quote(os.environ["PATH"])
        command.write_text(f'#!/bin/sh\nPATH={path} exec {shlex.join(words)} "$@"\n')
        command.chmod(0o755)

    def types(self, example: str) -> str:
        """Run an example; returns what is seen."""
        text = (EXAMPLES / example).read_text().replace("127.0.0.1:6379", self._server.address)
        text = text.replace("/app", f"/{self._prefix}").replace("app:", f"{self._prefix}:")
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.mark.parametrize("example", SAYS)
def test_an_example_on_redis(redis_server: servers.Redis, prefix: str, example: str) -> None:
    text = (EXAMPLES / example).read_text().replace("6379", str(redis_server.port))
    assert SAYS[example] in python(text.replace("/app", f"/{prefix}").replace("app:", f"{prefix}:"))


def test_what_is_looked_at_and_freed(redis_server: servers.Redis, prefix: str, tmp_path: Path) -> None:
    said = Shell(tmp_path, redis_server, prefix).types("redis_look.sh")
    assert "reports/nightly  exclusive" in said
    assert said.endswith("\n1\nended with 123\n")


@pytest.fixture(scope="module")
def user(redis_server: servers.Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL, less its path, of the user that the page makes for the prefix ``least``."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "password").write_text(f"{PASSWORD}\n")
    assert Shell(folder, redis_server, "least").types("redis_user.sh") == "OK\n"
    with redis.Redis(redis_server.host, redis_server.port) as server:
        server.acl_log_reset()
        yield f"redis://reports:{PASSWORD}@{redis_server.address}"
        meant = ("client|setinfo", *(f"{prefix}:" for prefix in ELSEWHERE))
        refused = [entry for entry in _log(server) if not entry["object"].startswith(meant)]
        server.acl_deluser("reports")
        assert refused == []


def _log(server: Any) -> list[Any]:
    entries: list[Any] = server.acl_log()
    return entries


@pytest.mark.parametrize("example", EVERYTHING)
def test_the_user_may_do_all_that_a_client_does(user: str, example: str, tmp_path: Path) -> None:
    python(example_on(EXAMPLES / example, f"{user}/1/least"), tmp_path)


def test_the_user_waits_for_another_program_and_is_renewed(user: str, redis_server: servers.Redis) -> None:
    key = "least:reports"
    with (
        redis.Redis(redis_server.host, redis_server.port) as server,
        recipes.connect(f"{user}/0/least", session_timeout=2) as client,
        ThreadPoolExecutor() as pool,
    ):
        server.set(key, "of another program")
        waits = pool.submit(client.lock("reports").acquire)
        assert servers.eventually(lambda: len(client.lock("reports").waiters()) == 1, 10)
        server.delete(key)
        with waits.result(30):
            until = server.pexpiretime(key)
            assert servers.eventually(lambda: server.pexpiretime(key) > until, 10)


def test_the_user_may_ask_for_acknowledgements(user: str) -> None:
    client = recipes.connect(f"{user}/0/least", replicas=1, request_timeout=1)
    with pytest.raises(recipes.StoreUnavailable, match="0 of 1 replicas acknowledged"):
        client.open()


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_the_user_may_do_nothing_below_another_prefix(user: str, elsewhere: str, tmp_path: Path) -> None:
    text = f"""
import recipes
try:
    recipes.connect("{user}/0/{elsewhere}").open()
except recipes.StoreDenied as denied:
    print(denied)
"""
    assert "permission" in python(text, tmp_path)
