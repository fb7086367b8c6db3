"""A process that ends without closing its clients: what they held is free at once (fault 45)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import recipes
from integration.servers import eventually
from recipes._run import process
from recipes.client import AsyncClient
from recipes.stores.memory import AsyncMemoryConnection
from tests.pace import Pace
from tests.run.doubles import SETTINGS, FaultyBackend
from tests.run.leaving import SCRIPTS, run

SOON_S = 20.0  # of a session of 600 s
WARNED = "-Wdefault::ResourceWarning"


@pytest.fixture
def url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="recipes-"))
    yield f"sqlite://{folder / 'locks.db'}"
    shutil.rmtree(folder)


def left(url: str) -> list[object]:
    """Return the contenders that the file still has; a client would first remove those of the dead."""
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite://"))) as db:
        return db.execute("SELECT * FROM contender").fetchall()


@pytest.mark.parametrize("case", SCRIPTS)
def test_fault_45_what_a_script_held_is_free_when_it_has_ended(url: str, case: str) -> None:
    ended = run(url, SCRIPTS[case], WARNED)
    assert left(url) == [], ended.said
    assert ended.code == (1 if case == "an error" else 0)
    assert "ResourceWarning: unclosed <" in ended.said
    assert f"Client of {url}" in ended.said
    assert re.search(r"'x' \(token \d+\)", ended.said)


SILENT = {
    "closed": """
        with recipes.connect(URL) as client:
            client.lock("x").acquire()
        ready()
    """,
    "released": """
        client = recipes.connect(URL)
        client.lock("x").acquire().release()
        ready()
    """,
    "closed by atexit": """
        client = recipes.connect(URL)
        client.lock("x").acquire()
        atexit.register(client.close)
        ready()
    """,
    "a forked child": """
        client = recipes.connect(URL)
        grant = client.lock("x").acquire()
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        assert client.lock("x").contenders()[0].token == grant.token and grant.verify()
        client.close()
        ready()
    """,
    "asyncio, closed": """
        async def main():
            async with recipes.connect_async(URL) as client:
                await client.lock("x").acquire()
                ready()

        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("case", SILENT)
def test_fault_45_who_closes_or_holds_nothing_is_warned_of_nothing(url: str, case: str) -> None:
    ended = run(url, SILENT[case], WARNED)
    assert (ended.code, ended.said) == (0, "")
    assert left(url) == []


def test_fault_45_os_exit_ends_at_once_and_frees_nothing_but_by_the_file(url: str) -> None:
    ended = run(url, SCRIPTS["blocking"] + "\n        os._exit(7)\n", WARNED)
    assert (ended.code, ended.said) == (7, "")
    assert len(left(url)) == 1
    with recipes.connect(url) as client:
        assert client.lock("x").acquire(timeout=10)  # for a file tells that its process has died


def test_fault_45_a_client_that_was_never_opened_costs_the_exit_nothing() -> None:
    body = """
        clients = [recipes.connect("etcd://127.0.0.1:1/app"), recipes.connect_async("zookeeper://127.0.0.1:1")]
        before = set(sys.modules)
        threads = []
        start = threading.Thread.start
        threading.Thread.start = lambda thread: (threads.append(thread), start(thread))
        atexit._run_exitfuncs()
        assert threads == [], threads
        new = set(sys.modules) - before
        assert not {name for name in new if name.startswith(("recipes", "kazoo", "etcd3gw"))}
        ready()
    """
    ended = run("", body, WARNED)
    assert (ended.code, ended.said) == (0, "")


def test_fault_45_the_exit_keeps_no_client_alive() -> None:
    body = """
        import weakref
        clients = [recipes.connect("memory://"), recipes.connect_async("memory://")]
        seen = [weakref.ref(client) for client in clients]
        clients.clear()
        gc.collect()
        assert [one() for one in seen] == [None, None]
        ready()
    """
    assert run("", body, WARNED).code == 0


HANGS = """
        from recipes.stores._kit.blocking import QueueConnection
        clients = [recipes.connect(URL) for _ in range(5)]
        grants = [one.lock(f"x{number}").acquire() for number, one in enumerate(clients)]
        QueueConnection.ask = lambda *args: time.sleep(60)
        ready()
    """


def test_fault_45_a_store_that_hangs_holds_the_exit_up_for_two_seconds_in_all(url: str) -> None:
    with Pace() as pace:
        ended = run(url, HANGS)
        late_s = pace.late_s()
    assert ended.code == 0, ended.said
    assert 1.9 < ended.took_s < 2.0 + 1.0 + late_s


def test_fault_45_a_warning_that_is_an_error_closes_all_the_same(url: str) -> None:
    ended = run(url, SCRIPTS["blocking"], "-Werror::ResourceWarning")
    assert "ResourceWarning: unclosed <Client" in ended.said
    assert left(url) == []


def test_fault_45_no_thread_can_be_started_any_more(url: str) -> None:
    body = """

        def none(thread):
            raise RuntimeError("can't create new thread at interpreter shutdown")

        client = recipes.connect(URL, session_timeout=20)
        client.lock("x").acquire()
        atexit.register(lambda: setattr(threading.Thread, "start", none))
        ready()
    """
    ended = run(url, body, WARNED)
    assert ended.code == 0
    assert left(url) == [], ended.said


def test_fault_45_the_memory_of_a_process_goes_with_it() -> None:
    for case in ("blocking", "a loop that was closed"):
        ended = run("memory://", SCRIPTS[case], WARNED)
        assert ended.code == 0
        assert "Client of memory://: session held> held lock 'x' (token 2) at exit" in ended.said


def drop(url: str) -> None:
    """Have a client collected, unclosed, which holds ``x``; its loop has ended."""

    async def hold() -> None:
        await recipes.connect_async(url, session_timeout=600).lock("x").acquire()

    asyncio.run(hold())
    gc.collect()


def test_fault_45_a_dropped_client_whose_connection_needs_no_loop_is_ended_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a connection may keep the session alive by itself (kazoo's threads do).

    Nothing else would end it.
    """
    monkeypatch.setattr(process, "_left", [])  # other tests may have left some
    with pytest.warns(
        ResourceWarning, match=r"was dropped while it held lock 'x' .*; its session is being ended"
    ):
        drop("memory://dropped")
    with recipes.connect("memory://dropped") as client:
        assert client.lock("x").acquire(timeout=SOON_S).held
    assert eventually(lambda: process._left == [], SOON_S)


def test_fault_45_a_dropped_client_that_only_waits_is_ended_at_once_too() -> None:
    """Its contender would block all behind it for as long as the process lives."""

    async def wait() -> None:
        client = await recipes.connect_async("memory://waits", session_timeout=600).open()
        queued = asyncio.Event()
        waiting = asyncio.create_task(
            client.lock("x").acquire(on_queued=lambda _: queued.set()),  # type: ignore[arg-type]
        )
        await queued.wait()
        assert not waiting.done()

    with recipes.connect("memory://waits") as other:
        grant = other.lock("x").acquire()
        asyncio.run(wait())
        gc.collect()
        assert eventually(lambda: other.lock("x").waiters() == [], SOON_S)
        assert grant.release()


def test_fault_45_a_leader_whose_loop_runs_no_more_resigns() -> None:
    async def lead() -> recipes.AsyncClient:
        client = recipes.connect_async("memory://leads", session_timeout=600)
        leads = asyncio.Event()

        async def work(_: object) -> None:
            leads.set()
            await asyncio.Event().wait()

        background.append(asyncio.create_task(client.election("x").run(work)))
        await leads.wait()
        return client

    background: list[asyncio.Task[None]] = []
    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(lead())
    with recipes.connect("memory://leads") as other:
        assert other.election("x").leader() is not None
        client._runtime.leave()
        assert other.election("x").leader() is None
    background[0].cancel()
    with contextlib.suppress(asyncio.CancelledError, recipes.RecipesError):
        loop.run_until_complete(background[0])
    loop.close()


def test_the_warning_says_what_is_held_and_of_what_recipe() -> None:
    async def hold() -> None:
        client = recipes.connect_async("memory://said", session_timeout=600)
        await client.semaphore("gpu", 2).acquire()
        await client.election("chief").campaign()

    said = r"was dropped while it held semaphore 'gpu' \(id [-0-9a-f]+\), election 'chief' \(token \d+\); its"
    with pytest.warns(ResourceWarning, match=said):  # noqa: PT031 - it is collected by either
        asyncio.run(hold())
        gc.collect()


def test_fault_45_a_dropped_client_whose_connection_needs_its_loop_is_ended_at_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_left", [])  # this process goes on
    monkeypatch.setattr(AsyncMemoryConnection, "for_another_loop", lambda _: None)
    with pytest.warns(
        ResourceWarning, match=r"was dropped, and lock 'x' .* stays held until the session runs"
    ):
        drop("memory://kept")
    assert len(process._left) == 1
    process._left[0].end()
    with recipes.connect("memory://kept") as client:
        assert client.lock("x").acquire(timeout=SOON_S).held


def test_fault_45_the_connection_of_a_dropped_client_is_closed_if_the_store_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that nothing keeps the session alive: it runs out."""

    async def unavailable(*_: object) -> None:
        raise recipes.StoreUnavailable("the store", "it is down")

    async def close(connection: AsyncMemoryConnection) -> None:
        closed.append(connection)

    closed: list[AsyncMemoryConnection] = []

    async def hold() -> None:
        await recipes.connect_async("memory://cut", session_timeout=600).lock("x").acquire()
        monkeypatch.setattr(AsyncMemoryConnection, "ask", unavailable)
        monkeypatch.setattr(AsyncMemoryConnection, "close", close)

    with pytest.warns(ResourceWarning, match="is being ended"):  # noqa: PT031 - it is collected by either
        asyncio.run(hold())
        gc.collect()
    assert eventually(lambda: len(closed) == 1, SOON_S)


def test_fault_45_what_cannot_be_ended_at_once_is_not_forgotten_before_the_exit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(process, "_left", [])
    with monkeypatch.context() as patch:
        patch.setattr("_thread.start_new_thread", none)
        with pytest.warns(ResourceWarning, match="stays held until the process ends"):
            drop("memory://late")
    with monkeypatch.context() as patch:
        patch.setattr(process, "boot_time", lambda: 1e12)
        with pytest.warns(ResourceWarning, match="is being ended"):
            drop("memory://another")
    assert eventually(lambda: len(process._left) == 1, SOON_S)
    process._left[0].end()
    process._left[0].end()  # the second time there is nothing to do
    with recipes.connect("memory://late") as client:
        assert client.lock("x").acquire(timeout=SOON_S).held


def test_fault_45_a_connection_that_lives_on_keeps_no_dropped_client_alive() -> None:
    """As kazoo's threads keep it, and with it what it is to tell of the session's end."""
    backend = FaultyBackend()

    async def hold() -> None:
        await AsyncClient(backend, SETTINGS).lock("x").acquire()

    with pytest.warns(ResourceWarning, match="is being ended"):  # noqa: PT031 - it is collected by either
        asyncio.run(hold())
        gc.collect()
    for on_end in backend.on_ends:
        on_end("nobody is there any more")
