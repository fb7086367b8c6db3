"""Row 45: scripts that end without closing their clients; on SQLite and in memory see ``tests/run``."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

import recipes
from integration import servers
from recipes._run.clock import boot_time
from recipes._run.process import LEAVE_WITHIN_S
from tests.pace import Pace
from tests.run.leaving import SCRIPTS, Ended, Script, run

T = TypeVar("T")

SOON_S = 10.0  # of a session of 20 s, of which 13 s are left at least
EXIT_S = 2.0
SLOW_S = 1.0


def each(server: servers.Server, prefix: str, what: Callable[..., T]) -> dict[str, T]:
    """Do something with every script, each at a place of its own."""
    if isinstance(server, servers.Redis):
        server.wait_granting()

    def one(numbered: tuple[int, str]) -> tuple[str, T]:
        number, case = numbered
        return case, what(server.url(f"{prefix}/{number}"), SCRIPTS[case], "-Wdefault::ResourceWarning")

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(one, enumerate(SCRIPTS)))


def ended(scripts: dict[str, Script]) -> dict[str, Ended]:
    """Let all scripts end, at once."""
    with ThreadPoolExecutor(len(scripts)) as pool:
        return dict(zip(scripts, pool.map(Script.end, scripts.values()), strict=True))


def free(url: str) -> bool:
    """Whether the lock can be had soon."""
    with recipes.connect(url) as client:
        try:
            return client.lock("x").acquire(timeout=SOON_S).held
        except recipes.LockTimeout:
            return False


def test_fault_45_what_scripts_held_is_free_when_they_have_ended(
    server: servers.Server, prefix: str, figure: Callable[[str], None]
) -> None:
    def fate(url: str, *script: str) -> tuple[Ended, bool]:
        with Pace() as pace:
            began = boot_time()
            one = run(url, *script)
            late_s = pace.late_s(began)
        if one.took_s >= LEAVE_WITHIN_S and late_s > 0.5:  # it gave up where the machine stood still
            url = f"{url}-again"
            one = run(url, *script)
        return one, free(url)  # at once: one that waits may block its loop, and lose it

    fates = each(server, prefix, fate)
    for case, (one, is_free) in fates.items():
        assert one.code == (1 if case == "an error" else 0), one.said
        assert "ResourceWarning: unclosed <" in one.said, case
        assert is_free, f"{case}: {one.said}"
    figure(f"ended within {max(one.took_s for one, _ in fates.values()):.2f} s")


def test_fault_45_the_exit_is_prompt_with_a_server_that_is_stopped(
    server: servers.Server, prefix: str, figure: Callable[[str], None]
) -> None:
    scripts = each(server, prefix, Script)
    server.pause()
    try:
        with Pace() as pace:
            fates = ended(scripts)
            late_s = pace.late_s()
    finally:
        server.resume()
    for case, one in fates.items():
        assert one.code == (1 if case == "an error" else 0), one.said
        assert one.took_s < EXIT_S + SLOW_S + late_s, case
    figure(f"exited within {max(one.took_s for one in fates.values()):.2f} s")


def test_fault_45_a_dropped_client_of_zookeeper_is_ended_at_once(
    zookeeper: servers.ZooKeeper, prefix: str
) -> None:
    """Threads of kazoo would keep its session alive for as long as this process lives."""

    async def hold() -> None:
        await recipes.connect_async(url, session_timeout=20).lock("x").acquire()

    url = zookeeper.url(prefix)
    with pytest.warns(ResourceWarning, match="its session is being ended"):  # noqa: PT031 - collected by either
        asyncio.run(hold())
        gc.collect()
    assert free(url)
