"""Fork: no connection goes through it, and both sides exclude each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes._contract.operations import Renewal
from recipes.stores.sqlite.database import Database
from tests.run.leaving import run
from tests.run.test_fork import in_child
from tests.stores.sqlite.connecting import join, renew


def on_the_file(path: str) -> int:
    """Count the descriptors of this process on the file and its log."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += str(entry.readlink()) in (path, f"{path}-wal", f"{path}-shm")
        except OSError:
            continue
    return found


def opening(path: str) -> Callable[[], str]:
    """Return what opens a client of the file, and says what came of it."""

    def opened() -> str:
        try:
            recipes.connect(f"sqlite://{path}").open()
        except recipes.StoreRefused as refused:
            return str(refused)
        return "opened"

    return opened


def test_a_connection_that_was_closed_stays_closed(connection: Any, path: str) -> None:
    a = connection("a")
    a.close()
    with pytest.raises(recipes.StoreUnavailable, match="the link is closed"):
        a.ask(renew("a"), 1.0)
    assert on_the_file(path) == 0


def test_no_connection_goes_through_a_fork(connection: Any, path: str) -> None:
    a = connection("a")
    token = join(a, "a")
    assert on_the_file(path) >= 3
    assert in_child(lambda: on_the_file(path)) == 0
    assert a.ask(renew("a", token), 1.0) == Renewal(5.0)


def test_no_connection_is_made_by_another_thread_during_a_fork(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(database: Database) -> None:
        close(database)
        if not threads:
            threads.append(threading.Thread(target=lambda: connection("b")))
            threads[0].start()
            threads[0].join(0.1)
            blocked.append(threads[0].is_alive())

    threads: list[threading.Thread] = []
    blocked: list[bool] = []
    a = connection("a")
    close = Database.before_fork
    monkeypatch.setattr(Database, "before_fork", look)
    assert in_child(lambda: on_the_file(path)) == 0
    threads[0].join(5)
    assert blocked == [True]
    assert not threads[0].is_alive()
    assert a.ask(renew("a"), 1.0)


def test_a_fork_amid_a_transaction_of_another_thread_keeps_the_child_out(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.sqlite.database.FORK_WAITS_S", 0.1)
    a = connection("a")
    begun, over = threading.Event(), threading.Event()

    def write() -> None:
        database = a.session._database
        database.acquire(1.0)
        database.connection().execute("BEGIN IMMEDIATE")
        begun.set()
        over.wait(10)
        database.release()

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(5)

    assert "forked amid a transaction" in in_child(opening(path))
    over.set()
    thread.join()
    assert a.ask(renew("a"), 1.0)
    assert in_child(opening(path)) == "opened"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_as_a_fork_begins_keeps_the_child_out(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python forks all the same, and SQLite would take the locks of the parent for its own."""

    def interrupted(database: Database) -> None:
        raise KeyboardInterrupt

    a = connection("a")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "before_fork", interrupted)
        assert "forked amid a transaction" in in_child(opening(path))
    assert a.ask(renew("a"), 1.0)


def test_clients_on_both_sides_of_a_fork_exclude_each_other(path: str) -> None:
    url = f"sqlite://{path}"
    with recipes.connect(url) as parent:
        grant = parent.lock("x").acquire()

        def child() -> list[Any]:
            with recipes.connect(url) as client:
                tried = client.lock("x").try_acquire()
                return [tried is None, client.lock("y").acquire(timeout=5).token]

        excluded, token = in_child(child)
        assert excluded
        assert token > grant.token
        assert grant.verify()
        assert parent.lock("y").acquire(timeout=5).token > token


def test_a_hook_closes_a_client_as_the_process_forks(path: str) -> None:
    """This thread has the lock of each database by then; what waits for that is done behind."""
    body = """
        clients, closed = [], []

        def close():
            for client in clients:
                client.close()
                closed.append(client)

        os.register_at_fork(before=close)  # hooks are called in reverse, so it comes after the package's own
        client = recipes.connect(URL, session_timeout=600)
        client.lock("x").acquire()
        clients.append(client)
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        assert closed == clients, "close raised"
        until = time.monotonic() + 20
        while client.pending_cleanups:
            assert time.monotonic() < until
            time.sleep(0.01)
        with recipes.connect(URL) as other:
            assert other.lock("x").acquire(timeout=20).held
        ready()
    """
    assert run(f"sqlite://{path}", body).code == 0
