"""``recipes who`` on servers: clients of other kinds, what is no contender, and a crowd."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration import servers
from integration.stores import store_on
from recipes.cli import main
from tests.cli.runs import RECIPES

CROWD = 1000
JOINED_S = 240.0
WITHIN_S = 1.0


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return what runs a command in this process, and returns its JSON."""

    def ask(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


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
@pytest.mark.measured
@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["file", "etcd-3.4", "etcd-3.5", "zookeeper-3.8"])
def test_who_on_a_crowd_answers_within_a_second(
    request: pytest.FixtureRequest, where: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    if where != "file":
        fixture = {"etcd-3.4": "etcd34", "etcd-3.5": "etcd35", "zookeeper-3.8": "zookeeper"}[where]
        url = request.getfixturevalue(fixture).start().url(f"t-{os.getpid()}")

    async def crowd() -> tuple[float, float]:
        async with recipes.connect_async(url, session_timeout=60, owner="one of many") as client:
            async with client.lock("x"):
                waiting = [asyncio.create_task(client.lock("x").acquire()) for _ in range(CROWD)]
                async with asyncio.timeout(JOINED_S):
                    await until_all_wait(client)
                nobody = min([await asyncio.to_thread(timed, "y", 0) for _ in range(3)])
                took = min([await asyncio.to_thread(timed) for _ in range(3)])
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return nobody, took

    async def until_all_wait(client: recipes.AsyncClient) -> None:
        while len(await client.lock("x").contenders(limit=10_000)) <= CROWD:  # noqa: ASYNC110 - only it knows
            await asyncio.sleep(0.2)

    def timed(lock: str = "x", waiters: int = CROWD) -> float:
        began = time.perf_counter()
        command = [*RECIPES, "who", lock, "--store", url, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        took = time.perf_counter() - began
        assert len(json.loads(done.stdout)["waiters"]) == waiters
        return took

    nobody, took = asyncio.run(crowd())
    figure(f"answered in {took:.2f} s, with the start of the interpreter; {nobody:.2f} s where nobody waits")
    assert took < max(WITHIN_S, 3 * nobody)  # the second on a busy machine, where all of it takes longer


@pytest.mark.parametrize("server", ["etcd-3.5", "zookeeper-3.8"], indirect=True)
def test_of_an_election_and_a_group_all_is_shown(
    server: servers.Server, prefix: str, asked: Callable[..., Any]
) -> None:
    where = ("--store", server.url(prefix))
    with recipes.connect(server.url(prefix), owner="one") as client:
        leadership = client.election("e").campaign("10.0.0.3:80")
        client.group("g").join(b"says", id="a")
        (leader,) = asked("who", "e", "--of", "election", *where)["holders"]
        assert (leader["value"], leader["owner"], leader["pid"]) == ("10.0.0.3:80", None, None)
        (member,) = asked("who", "g", "--of", "group", *where)["holders"]
        assert (member["member"], member["data"], member["owner"]) == ("a", "says", "one")
        assert asked("members", "g", *where) == [{"id": "a", "data": "says"}]
        assert asked("ls", *where) == []
        for recipe, name, token in (("election", "e", leadership.token), ("group", "g", member["token"])):
            assert main(["break", name, "--of", recipe, "--token", str(token), "--yes", *where]) == 0
        assert client.election("e").leader() is None
        assert client.group("g").members() == ()
    servers.clean(server, prefix)
