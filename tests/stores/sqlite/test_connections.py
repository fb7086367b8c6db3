"""The connections: what one client tells another, what it hears, and what it does when something is wrong."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import recipes
from recipes import StoreFull, StoreUnavailable
from recipes._contract.operations import Checked, List, Renewal
from recipes._contract.wakeups import Changed, Gone
from recipes._run.clock import boot_time
from recipes.errors import SessionLost
from recipes.stores._kit.blocking import QueueConnection
from recipes.stores._kit.session import Observe
from recipes.stores._kit.tasks import AsyncQueueConnection
from recipes.stores.sqlite import notifications as sockets
from recipes.stores.sqlite.database import Database
from recipes.stores.sqlite.liveness import Folder
from recipes.stores.sqlite.notifications import Notifications
from recipes.stores.sqlite.schema import connect
from recipes.stores.sqlite.session import FileSession
from recipes.stores.sqlite.transactions import Transaction
from tests.contract.world import until
from tests.pace import Pace, taking
from tests.run.test_fork import in_child
from tests.stores.sqlite.connecting import (
    Box,
    checking,
    command,
    downgrading,
    finish,
    join,
    joining,
    leaving,
    queued,
    renew,
    start,
)


def test_a_release_is_told_at_once_and_so_is_a_downgrade(connection: Any, path: str) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    token = join(a, "a")
    own = join(b, "b", box)
    stands = Checked(mine=True, present=frozenset({f"x/{token}"}))
    with taking(sockets.TICK_S):
        assert a.ask(downgrading("a", token), 10.0)
        assert box.rang.wait(10)
        box.rang.clear()
        assert b.ask(checking("b", own, token, box), 10.0) == stands
        assert a.ask(leaving("a", token), 10.0)
        assert box.rang.wait(10)
    assert box.events == [Changed(f"x/{token}"), Gone(f"x/{token}")]


def test_what_was_not_told_is_found_and_so_is_a_death(connection: Any, path: str) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    token = join(a, "a")
    own = join(b, "b", box)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM contender WHERE token = ?", (token,))
    db.close()
    assert box.rang.wait(10)
    c = connection("c")
    c_box = Box()
    join(c, "c", c_box)
    b.session._liveness.drop()  # as its process would by dying
    assert c_box.rang.wait(10)
    assert c_box.events == [Gone(f"x/{own}")]
    assert until(lambda: not list(Path(f"{path}-clients").glob("b.*")), 10)


def test_a_downgrade_that_was_not_told_is_found_once(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    token = join(a, "a")
    own = join(b, "b", box)
    stands = Checked(mine=True, present=frozenset({f"x/{token}"}))
    monkeypatch.setattr(Notifications, "ring", lambda *_: None)
    with taking(2 * sockets.TICK_S):
        assert a.ask(downgrading("a", token), 10.0)
        assert box.rang.wait(10)
    assert box.events == [Changed(f"x/{token}")]
    assert b.ask(checking("b", own, token, box), 10.0) == stands
    time.sleep(2 * sockets.TICK_S)
    assert box.events == [Changed(f"x/{token}")]  # a writer knows it, and goes on waiting


def observe(connection: Any, session: str, queue: str = "x") -> Box:
    box = Box()
    connection.ask(command(session, List(queue, 10, watch=True), box), 10.0)
    return box


def test_an_observer_is_notified_at_once_of_what_another_process_did(connection: Any) -> None:
    a, b = connection("a"), connection("b")
    box, elsewhere = observe(b, "b"), observe(b, "b", "~election/x")
    with taking(sockets.TICK_S):
        token = join(a, "a")
        assert box.rang.wait(10)
        box = observe(b, "b")
        a.ask(leaving("a", token), 10.0)
        assert box.rang.wait(10)
        assert not elsewhere.events
        a.ask(joining("a", queue="~election/x"), 10.0)
        assert elsewhere.rang.wait(10)
    assert (box.events, elsewhere.events) == ([Changed("x")], [Changed("~election/x")])


@pytest.mark.parametrize("change", ["not told", "by hand", "death"])
def test_an_observer_finds_what_it_was_not_notified_of(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    a, b = connection("a"), connection("b")
    token = join(a, "a")
    box = observe(b, "b")
    if change == "not told":
        monkeypatch.setattr(Notifications, "ring", lambda *_: None)
        a.ask(downgrading("a", token), 10.0)
    elif change == "by hand":
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM contender WHERE token = ?", (token,))
        db.close()
    else:
        a.session._liveness.drop()  # as its process would by dying
    assert box.rang.wait(10)
    assert box.events == [Changed("x")]


@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_who_hears_and_asks_all_the_time_still_looks(connection: Any, path: str, api: str) -> None:
    a = connection("a")
    join(a, "a")
    box, over = Box(), threading.Event()

    def chatter() -> None:
        while not over.wait(sockets.TICK_S / 10):
            a.session.notifications.ring("b", [Gone("x/1")])

    async def wait_busily() -> None:
        waiter = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        await waiter.ask(start("b"), 10.0)
        await waiter.ask(joining("b", box), 10.0)
        a.session._liveness.drop()
        for _ in range(30):
            await waiter.ask(renew("b"), 10.0)
            await asyncio.sleep(sockets.TICK_S / 10)
        await waiter.close()

    thread = threading.Thread(target=chatter)
    thread.start()
    if api == "asyncio":
        asyncio.run(wait_busily())
    else:
        join(connection("b"), "b", box)
        a.session._liveness.drop()
    assert box.rang.wait(10)
    over.set()
    thread.join()


def test_a_waiter_whose_session_ended_behind_its_back_is_told(connection: Any, path: str) -> None:
    a, b = connection("a"), connection("b")
    join(a, "a")
    join(b, "b", Box())
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM session WHERE id = 'b'")
    db.close()
    assert until(lambda: connection.ended, 10)
    assert connection.ended == [("b", "the session has ended on the store")]
    with pytest.raises(SessionLost):
        b.ask(renew("b"), 10.0)


def test_while_another_writes_it_is_asked_again_and_given_up_in_time(connection: Any, path: str) -> None:
    a = connection("a")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    refused = pytest.raises(StoreUnavailable, match="others were writing all the time")
    with taking(2, at_least_s=0.25), refused:
        a.ask(renew("a"), 0.3)
    writer.execute("COMMIT")
    writer.close()
    assert a.ask(renew("a"), 10.0) == Renewal(5.0)


def test_a_request_that_takes_long_holds_up_others_no_longer_than_they_allow(connection: Any) -> None:
    a = connection("a")
    taken, over = threading.Event(), threading.Event()

    def hog() -> None:
        a.session._database.acquire(1.0)
        taken.set()
        over.wait(5)
        a.session._database.release()

    thread = threading.Thread(target=hog)
    thread.start()
    assert taken.wait(5)
    with pytest.raises(StoreUnavailable, match="earlier requests take too long"):
        a.ask(renew("a"), 0.15)
    over.set()
    thread.join()
    assert a.ask(renew("a"), 10.0)


def test_an_interrupt_amid_a_transaction_undoes_it(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = connection("a"), connection("b")
    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "carry_out", interrupt)
        with pytest.raises(KeyboardInterrupt):
            a.ask(renew("a"), 10.0)
    assert a.session._database._db.in_transaction is False
    a.session._database.acquire(1.0)
    a.session._database._db.execute("BEGIN IMMEDIATE")  # as if it struck between two lines
    a.session._database.release()
    assert b.ask(renew("b"), 10.0)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_who_writes_looks_at_nothing_before_it_is_the_only_writer(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, looked = connection("a"), []
    monkeypatch.setattr(Transaction, "carry_out", lambda _: looked.append("looked"))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="others were writing all the time"):
        a.ask(renew("a"), 0.1)
    assert looked == []
    a.ask(command("a", Observe((), ())), 1.0)  # who only reads waits for nobody
    assert looked == ["looked"]
    writer.execute("COMMIT")
    writer.close()


def test_a_session_is_timed_by_the_clock_that_all_processes_share(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.sqlite.session.boot_time", lambda: boot_time() + 1000)
    connection("a").ask(renew("a"), 1.0)
    with sqlite3.connect(path) as db:
        ((expires_at,),) = db.execute("SELECT expires_at FROM session").fetchall()
    db.close()
    assert boot_time() + 1000 < expires_at <= boot_time() + 1005


def test_a_session_can_be_seen_to_live_before_it_is_in_the_file(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(work: Transaction) -> Any:
        folder = Folder(path)
        seen.append((folder.living(["a"]), Path(folder.address_of("a")).is_socket()))
        return carry_out(work)

    seen: list[tuple[bool, bool]] = []
    carry_out = Transaction.carry_out
    monkeypatch.setattr(Transaction, "carry_out", look)
    one = QueueConnection(FileSession(path, "label", lambda reason: None))
    one.ask(start("a"), 1.0)
    one.close()
    assert seen == [(True, True)]


def test_a_connection_that_is_closed_without_an_end_is_seen_to_be_dead(connection: Any, path: str) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    token = join(a, "a")
    join(b, "b", box)
    a.close()
    assert Folder(path).dead(["a"]) == ["a"]
    assert box.rang.wait(5)
    assert box.events == [Gone(f"x/{token}")]


def test_without_room_nobody_joins_and_everybody_is_renewed_and_leaves(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = connection("a")
    token = join(a, "a")
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=1, f_frsize=4096))
    for grows in (start("b"), joining("a", queue="y")):
        with pytest.raises(StoreFull, match="the disk is full"):
            a.ask(grows, 1.0)
    assert a.ask(renew("a", token), 1.0) == Renewal(5.0)
    assert a.ask(downgrading("a", token), 1.0)
    assert a.ask(leaving("a", token), 1.0)
    a.ask(finish("a"), 1.0)


def test_another_file_in_the_place_of_the_first_is_seen(connection: Any, path: str) -> None:
    a = connection("a")
    token = join(a, "a")
    Path(path).rename(f"{path}.old")
    for beside in ("wal", "shm"):
        Path(f"{path}-{beside}").unlink()
    with pytest.raises(SessionLost, match="the file was deleted, or another was put in its place"):
        a.ask(renew("a", token), 10.0)
    with recipes.connect(f"sqlite://{path}") as client:
        assert client.lock("x").acquire(timeout=5)
    with pytest.raises(SessionLost):
        a.ask(renew("a"), 10.0)


REPLACED = "the file was deleted, or another was put in its place"


def rename(path: str) -> None:
    Path(path).rename(f"{path}.old")


def rename_over(path: str) -> None:
    Path(f"{path}.new").touch()
    Path(f"{path}.new").rename(path)


@pytest.mark.parametrize("remove", [os.unlink, rename, rename_over])
@pytest.mark.parametrize("what", ["", "-wal", "-shm"])
def test_each_file_that_is_removed_beneath_a_session_ends_it(
    connection: Any, path: str, what: str, remove: Callable[[str], None]
) -> None:
    """Another client would make new ones, and hold what is held here."""
    a = connection("a")
    token = join(a, "a")
    remove(path + what)
    if what == "" or remove is not rename:  # a log that was renamed is found by the next renewal
        with pytest.raises(SessionLost, match=REPLACED):
            join(a, "a")
    with pytest.raises(SessionLost, match=REPLACED):
        a.ask(renew("a", token), 10.0)
    with pytest.raises(SessionLost, match=REPLACED):
        join(a, "a")


@pytest.mark.parametrize("link", ["file", "directory"])
def test_a_link_that_leads_to_another_file_ends_a_session(tmp_path: Path, link: str) -> None:
    """A release is rolled out: ``current`` leads to the next directory, where others find nobody."""
    for release in ("r1", "r2"):
        (tmp_path / release).mkdir()
        recipes.connect(f"sqlite://{tmp_path}/{release}/locks.db").open().close()
    current = tmp_path / "current"
    there = "" if link == "directory" else "/locks.db"
    url = f"sqlite://{current}" + ("/locks.db" if link == "directory" else "")
    current.symlink_to(f"r1{there}")
    with recipes.connect(url, session_timeout=6) as client:
        grant = client.lock("x").acquire()
        (tmp_path / "next").symlink_to(f"r2{there}")
        (tmp_path / "next").rename(current)
        assert grant.verify() is False
        assert REPLACED in (grant.lost_reason or "")
        again = client.lock("x").acquire(timeout=20)
        with recipes.connect(f"sqlite://{tmp_path}/r2/locks.db") as other:
            assert other.lock("x").try_acquire() is None
        assert again.verify()


@pytest.mark.parametrize("what", ["-wal", "-shm"])
def test_clients_of_one_process_lose_their_grants_and_go_on_with_new_files(path: str, what: str) -> None:
    """SQLite shares what it has open among the connections of a process, so all of them have to let go."""
    with recipes.connect(f"sqlite://{path}") as a, recipes.connect(f"sqlite://{path}") as b:
        grants = a.lock("x").acquire(), b.lock("y").acquire()
        Path(path + what).unlink()
        assert grants[0].verify() is False
        assert REPLACED in (grants[0].lost_reason or "")
        again = a.lock("x").acquire(timeout=20)
        assert grants[1].verify() is False
        assert b.lock("x").try_acquire() is None
        assert in_child(lambda: recipes.connect(f"sqlite://{path}").lock("x").try_acquire() is None) is True
        assert again.verify()


def test_a_connection_in_use_whose_files_were_replaced_keeps_others_from_opening(
    connection: Any, path: str
) -> None:
    a = connection("a")
    b = QueueConnection(FileSession(path, "label", lambda _: None))
    with holding(a.session._database):
        Path(f"{path}-shm").unlink()
        with pytest.raises(StoreUnavailable, match="others were writing all the time"):
            b.ask(start("b"), 0.2)
    b.ask(start("b"), 10.0)
    assert join(b, "b")
    b.close()
    with pytest.raises(SessionLost, match=REPLACED):
        a.ask(renew("a"), 1.0)


@contextmanager
def holding(database: Database) -> Iterator[None]:
    """Have another thread use a connection."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        assert database.acquire(1.0)
        taken.set()
        over.wait(30)
        database.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(5)
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_what_is_beside_the_file_stays_as_long_as_a_connection_is_open(connection: Any, path: str) -> None:
    """Whatever others do that belongs to the life of the file."""

    def come_and_go() -> bool:
        with recipes.connect(f"sqlite://{path}") as client:
            return client.lock("y").acquire(timeout=10).held

    def copy(mode: str) -> None:
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        db.close()

    a = connection("a")
    token = join(a, "a")
    for use in (
        come_and_go,
        lambda: in_child(come_and_go),
        *(partial(copy, mode) for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE")),
        lambda: in_child(lambda: copy("TRUNCATE")),
        lambda: in_child(lambda: True),  # for which the connection is closed, and opened again
        a.session._checkpoint,
    ):
        use()
        assert a.ask(renew("a", token), 10.0) == Renewal(5.0)


def delete(path: str) -> None:
    for end in ("", "-wal", "-shm"):
        Path(path + end).unlink()


def replace_by_another(path: str) -> None:
    connect(f"{path}.another", "label", lambda _: False).close()
    Path(f"{path}.another").rename(path)


@pytest.mark.parametrize(
    "meanwhile",
    [delete, os.unlink, rename, replace_by_another, lambda path: Path(f"{path}-shm").unlink()],
    ids=["deleted", "file deleted", "renamed", "replaced", "memory deleted"],
)
@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_is_replaced_while_it_is_opened_is_not_used(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[str], None], again: bool
) -> None:
    def connect_before(*given: Any) -> sqlite3.Connection:
        db = connect(*given)
        monkeypatch.undo()
        meanwhile(path)
        return db

    a = QueueConnection(FileSession(path, "label", lambda _: None))
    if again:
        a.ask(start("a"), 1.0)
        database = a.session._database
        database.before_fork()
        database.after_fork_in_parent()
    monkeypatch.setattr("recipes.stores.sqlite.database.connect", connect_before)
    for ask in (renew("a"),) if again else (start("a"), renew("a")):
        with pytest.raises(SessionLost, match=REPLACED):
            a.ask(ask, 1.0)
    a.close()


def test_an_interrupt_as_a_file_was_opened_leaves_no_connection_that_is_not_looked_at(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = QueueConnection(FileSession(path, "label", lambda _: None))
    with monkeypatch.context() as patched:
        patched.setattr("recipes.stores.sqlite.database.Files", interrupt)
        with pytest.raises(KeyboardInterrupt):
            a.ask(start("a"), 1.0)
    a.ask(start("a"), 1.0)
    Path(path).unlink()
    with pytest.raises(SessionLost, match=REPLACED):
        a.ask(renew("a"), 1.0)
    a.close()


def test_a_client_whose_file_is_replaced_while_it_is_opened_opens_it_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_before(*given: Any) -> sqlite3.Connection:
        db = connect(*given)
        monkeypatch.undo()
        delete(path)
        return db

    monkeypatch.setattr("recipes.stores.sqlite.database.connect", connect_before)
    client = recipes.connect(f"sqlite://{path}")
    with client.lock("x").acquire(timeout=20):
        assert in_child(lambda: recipes.connect(f"sqlite://{path}").lock("x").try_acquire() is None) is True
    client.close()


def test_a_client_whose_file_was_replaced_loses_its_grants_and_goes_on(path: str) -> None:
    with recipes.connect(f"sqlite://{path}", session_timeout=6) as client:
        grant = client.lock("x").acquire()
        for beside in ("", "-wal", "-shm"):
            Path(f"{path}{beside}").unlink()
        assert grant.lost.wait(10)
        assert "the file was deleted" in (grant.lost_reason or "")
        assert client.lock("x").acquire(timeout=5).held


# Telling and hearing.


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with recipes.connect(f"sqlite://{deep}/locks.db") as a, recipes.connect(f"sqlite://{deep}/locks.db") as b:
        assert [
            c._runtime.state.session.connection.session.notifications._directory is not None for c in (a, b)
        ] == [
            True,
            True,
        ]  # type: ignore[union-attr]
        hand_over(a, b, within_s=sockets.TICK_S / 2)


def test_connections_to_one_file_are_one_store(tmp_path: Path, path: str) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with recipes.connect(f"sqlite://{tmp_path}/link.db") as a, recipes.connect(f"sqlite://{path}") as b:
        hand_over(a, b, within_s=sockets.TICK_S / 2)
    assert [file.name for file in tmp_path.glob("*-clients")] == ["locks.db-clients"]


def hand_over(a: Any, b: Any, within_s: float) -> None:
    """Release by one client while the other waits."""
    grant = a.lock("x").acquire()
    granted: list[float] = []

    def wait() -> None:
        b.lock("x").acquire(timeout=20)
        granted.append(boot_time())

    thread = threading.Thread(target=wait)
    with queued():
        thread.start()
    with Pace() as pace:
        released = boot_time()
        grant.release()
        thread.join()
        assert granted[0] - released < within_s + pace.late_s()


def test_where_no_socket_can_be_made_waiters_look_by_themselves(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Notifications, session: str) -> None:
        raise PermissionError

    monkeypatch.setattr(Notifications, "_open", refuse)
    with recipes.connect(f"sqlite://{path}") as a, recipes.connect(f"sqlite://{path}") as b:
        hand_over(a, b, within_s=0.1)


def test_a_directory_that_cannot_be_made_is_done_without(path: str) -> None:
    Path(f"{path}-clients").touch()
    with recipes.connect(f"sqlite://{path}") as a, recipes.connect(f"sqlite://{path}") as b:
        hand_over(a, b, within_s=0.1)


def test_a_session_that_never_began_hears_nothing(path: str) -> None:
    session = FileSession(path, "label", lambda reason: None)
    assert not session.hear()
    session.tick()
    session.close(0.1)
    assert list(Path(path).parent.iterdir()) == []


def test_who_hears_is_woken_if_it_found_nobody_waiting_just_before(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[float | None] = []
    session = FileSession(path, "label", lambda reason: None)
    session.on_listen = lambda: woken.append(session.tick_s)
    session.listen(Box(), "x/1")
    session.listen(Box(), "x/1")
    assert len(woken) == 1
    add = session.subscriptions.add

    def add_late(*given: Any) -> None:
        session.post([Gone("x/1")])
        assert session.tick_s is None
        add(*given)

    monkeypatch.setattr(session.subscriptions, "add", add_late)
    session.listen(Box(), "x/2")
    assert len(woken) == 2
    assert None not in woken
