"""Values in a file: each write once, with a receipt that goes with its session, and safe from a power cut."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes._contract.contenders import DOWNGRADED
from recipes._contract.operations import (
    End,
    Enqueue,
    Entry,
    Guard,
    List,
    Read,
    Renew,
    Rewrite,
    Settle,
    Stored,
    Ticket,
    Write,
    Written,
)
from recipes._contract.protocol import RequestContext
from recipes._contract.wakeups import Changed
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import SessionLost
from recipes.stores._kit.queue import Put, QueueProtocol
from recipes.stores._kit.session import Observe
from recipes.stores.receipts import Exchange, Exchanged
from recipes.stores.sqlite import schema
from recipes.stores.sqlite.notifications import Notifications
from recipes.stores.sqlite.schema import EPOCH
from recipes.stores.sqlite.session import LOG_WARNS
from recipes.stores.sqlite.transactions import Sweep
from tests.stores.sqlite.connecting import Box, command
from tests.stores.sqlite.file import File

KEY = "~value/x"
MOST = 1_000_000


def put(
    file: File, session: str, data: bytes | None, expected: int = 0, number: int = 1, **how: Any
) -> Exchanged:
    """Write with a receipt, as it is said to be."""
    settles = how.pop("settles", False)
    write = Write(how.pop("key", KEY), data, number, **how)
    found: Exchanged = file.do(session, Put(Exchange(write, expected, b"%d" % number, settles)))
    return found


def read(file: File, session: str, key: str = KEY) -> Stored:
    stored: Stored = file.do(session, Read(key))
    return stored


def receipts(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT session, key FROM receipt ORDER BY session, key").fetchall()


def test_a_value_and_its_receipt_have_the_number_of_the_write(file: File) -> None:
    file.start("a", "b")
    assert read(file, "a") == Stored()
    first = put(file, "a", b"1")
    assert first == Exchanged(True, EPOCH + 1, b"1", Stored(b"1", EPOCH + 1))
    assert read(file, "b") == Stored(b"1", EPOCH + 1)
    assert put(file, "b", b"").stored == Stored(b"", EPOCH + 2)  # another session's receipt is its own
    assert put(file, "a", None, first.version, 2) == Exchanged(True, EPOCH + 3, b"2", Stored())
    assert put(file, "a", b"3", EPOCH + 3, 3).stored == Stored(b"3", EPOCH + 4)
    assert read(file, "a", "~value/y") == Stored()


def test_a_copy_finds_another_receipt_and_changes_nothing(file: File) -> None:
    file.start("a")
    first = put(file, "a", b"1")
    put(file, "a", b"2", first.version, 2)
    for _ in range(2):
        assert put(file, "a", b"1") == Exchanged(False, EPOCH + 2, b"2", Stored(b"2", EPOCH + 2))
    assert read(file, "a") == Stored(b"2", EPOCH + 2)


def test_a_settlement_raises_the_version_of_the_receipt_alone(file: File) -> None:
    file.start("a", "b")
    file.do("b", Read(KEY, watch=True))
    assert put(file, "a", b"1", settles=True, if_version=99) == Exchanged(True, EPOCH + 1, b"1")
    assert file.news(Changed) == {}
    assert not put(file, "a", b"1").done  # what it settled has come late
    assert read(file, "a") == Stored()


@pytest.mark.parametrize("data", [b"new", None])
def test_a_write_may_ask_for_a_version(file: File, data: bytes | None) -> None:
    file.start("a", "b")
    stored = put(file, "a", b"1").stored
    assert stored is not None
    for version in (0, stored.version + 1):
        assert put(file, "b", data, if_version=version) == Exchanged(False, 0, b"", stored)
    assert put(file, "b", data, if_version=stored.version).done
    assert put(file, "a", b"none", stored.version, 2, if_version=0).done == (data is None)


def test_a_write_may_be_guarded_by_contenders_of_its_session(file: File) -> None:
    file.start("a", "b")
    mine, others = file.entry("a"), file.entry("b")
    other_queue = Entry(Ticket("y", "lock", "id-a"), f"y/{mine.token}", mine.token)
    guards = (Guard(mine),)
    for other in (others, other_queue):
        found = put(file, "a", b"1", guards=(*guards, Guard(other)))
        assert found == Exchanged(False, 0, b"", Stored(), guarded=False)
    found = put(file, "a", b"1", guards=guards)
    assert found.done
    file.leave("a", mine)
    refused = put(file, "a", b"2", found.version, 2, guards=guards)
    assert (refused.done, refused.guarded) == (False, False)
    assert put(file, "a", b"2", found.version, 2, guards=guards, settles=True).done


def test_receipts_that_are_spent_go_if_they_are_as_they_were(file: File) -> None:
    file.start("a", "b")
    first, other = put(file, "a", b"1", key="~value/y"), put(file, "b", b"1", key="~value/y")
    for session, version in (("b", first.version), ("a", first.version + 9), ("a", first.version)):
        exchange = Exchange(Write(KEY, b"2", 2), 99, b"2")  # which is refused: the receipts go all the same
        file.do(session, Put(exchange, (("~value/y", version),)))
        there = receipts(file.db)
        assert (("a", "~value/y") in there) == (session != "a" or version != first.version)
    assert ("b", "~value/y") in there
    assert other.done


def test_a_guard_may_have_to_be_unchanged(file: File) -> None:
    file.start("a")
    mine = file.entry("a")
    found = put(file, "a", b"1", guards=(Guard(mine, unchanged=True),))
    file.do("a", Rewrite(mine, DOWNGRADED))
    refused = put(file, "a", b"2", found.version, 2, guards=(Guard(mine, unchanged=True),))
    assert (found.done, refused.done, refused.guarded) == (True, False, False)
    assert put(file, "a", b"2", found.version, 2, guards=(Guard(mine),)).done


@pytest.mark.parametrize("way", ["end", "expiry", "death", "an older client", "a restart"])
def test_receipts_go_with_their_session_and_values_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = File(tmp_path / "locks.db")
    file.start("a", ttl_s=5.0)
    file.start("b", ttl_s=50.0)
    for number, key in enumerate((KEY, "~value/y")):
        put(file, "a", b"1", key=key, number=number)
        put(file, "b", b"2", key=key, number=number)
    kept = [("b", KEY), ("b", "~value/y")]
    match way:
        case "end":
            file.do("a", End())
        case "expiry":
            file.now += 6
            file.do("b", Sweep())
        case "death":
            file.died = {"a"}
            file.do("b", Sweep(("a",)))
        case "an older client":  # with the statement that it has
            file.db.execute("DELETE FROM session WHERE id = ?", ("a",))
        case _:
            file.db.close()
            monkeypatch.setattr(schema, "machine", lambda: "the next boot")
            file, kept = File(tmp_path / "locks.db"), []
    assert receipts(file.db) == kept
    file.start("c")
    assert read(file, "c") == Stored(b"2", EPOCH + 2)
    file.db.close()


def test_starting_again_after_a_lost_reply_keeps_receipts(file: File) -> None:
    file.start("a")
    first = put(file, "a", b"1")
    file.start("a")
    assert receipts(file.db) == [("a", KEY)]
    assert not put(file, "a", b"1").done
    assert put(file, "a", b"2", first.version, 2).done


def test_a_session_that_has_ended_neither_reads_nor_writes(file: File) -> None:
    file.start("a", ttl_s=5.0)
    file.start("b", ttl_s=50.0)
    file.now += 5
    for op in (Read(KEY), Put(Exchange(Write(KEY, b"1", 1), 0, b"1"))):
        with pytest.raises(SessionLost):
            file.do("a", op)
    assert read(file, "b") == Stored()


@pytest.mark.parametrize("data", [b"new", None])
def test_who_watches_a_value_is_notified_once_of_its_next_change(file: File, data: bytes | None) -> None:
    file.start(*"abc")
    first = put(file, "a", b"1")
    for session in "bc":
        assert file.do(session, Read(KEY, watch=True)) == first.stored
    file.do("c", Read("~value/y", watch=True))
    put(file, "a", b"none", key="~value/z")
    assert file.news(Changed) == {}
    second = put(file, "a", data, first.version, 2)
    assert file.news(Changed) == {"b": [KEY], "c": [KEY]}
    put(file, "a", b"3", second.version, 3)
    assert file.news(Changed) == {}


def test_a_change_of_a_value_that_was_not_notified_is_found(file: File) -> None:
    file.start("a", "b")
    put(file, "a", b"1")
    observe = Observe((), (KEY, "~value/y"))
    for key in (KEY, "~value/y"):
        file.do("b", Read(key, watch=True))
    assert file.do("b", observe).changed == ()
    file.db.execute("UPDATE value SET version = version + 1")
    assert file.do("b", observe).changed == (KEY,)
    file.do("b", Read(KEY, watch=True))
    file.db.execute("DELETE FROM value")
    assert file.do("b", observe).changed == (KEY,)
    put(file, "a", b"1", key="~value/y")
    assert file.do("b", observe).changed == (KEY, "~value/y")


def test_a_barrier_is_a_value_and_a_queue_under_one_name(file: File) -> None:
    file.start("a", "b")
    key = "~barrier/x"
    ticket = Ticket(key, "B", "id-a")
    for watch in (Read(key, watch=True), List(key, 5, watch=True)):
        for act in (Enqueue(ticket, EXCLUSIVE), Put(Exchange(Write(key, b"1", 1), 0, b"1"))):
            file.do("b", watch)
            file.do("a", act)
            assert file.news(Changed) == {"b": [key]}
        file.do("a", End())
        file.start("a")
    file.do("b", Read(key, watch=True))
    file.db.execute("UPDATE value SET version = version + 1")
    assert file.do("b", Observe((), (key,))).changed == (key,)
    assert file.do("b", List(key, 5)).contenders == ()


# With connections.


def carried(connection: Any, session: str, steps: Any) -> Any:
    """Carry out what a protocol asks."""
    try:
        request = next(steps)
        while True:
            request = steps.send(connection.ask(request, 5.0))
    except StopIteration as stop:
        return stop.value


class Writer:
    """One session that writes, by its protocol."""

    def __init__(self, connection: Any, session: str) -> None:
        self.connection = connection(session)
        self.session = session
        self.protocol = QueueProtocol(session)
        self.context = RequestContext(Box())
        self.number = 0

    def write(self, data: bytes | None, key: str = KEY, **how: Any) -> Written:
        self.number += 1
        steps = self.protocol.write(Write(key, data, self.number, **how), self.context)
        written: Written = carried(self.connection, self.session, steps)
        return written

    def read(self, key: str = KEY, box: Box | None = None) -> Stored:
        asked = command(self.session, Read(key, watch=box is not None), box)
        stored: Stored = self.connection.ask(asked, 5.0)
        return stored


def test_what_is_given_up_is_settled(connection: Any) -> None:
    one = Writer(connection, "a")
    assert one.write(b"1").done
    given_up = Write(KEY, b"late", 99)
    assert carried(one.connection, "a", one.protocol.settle(Settle(given_up), one.context)) is False
    assert one.write(b"2").done
    assert one.read().data == b"2"


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, MOST])
def test_what_is_read_is_what_was_written_however_large(connection: Any, size: int) -> None:
    one, other = Writer(connection, "a"), Writer(connection, "b")
    data = bytes(at % 251 for at in range(size))
    assert one.write(data).stored == other.read()
    assert other.read().data == data
    refused = other.write(b"", if_version=0)
    assert (refused.done, refused.stored) == (False, one.read())


def test_large_values_do_not_have_the_log_grow_for_ever(connection: Any, path: str) -> None:
    one = Writer(connection, "a")
    for number in range(40):
        assert one.write(bytes([number]) * MOST).done  # each page is another: SQLite writes no other
    assert Path(f"{path}-wal").stat().st_size < LOG_WARNS / 2
    assert Path(path).stat().st_size < 10 * MOST  # room is used again


def test_another_process_is_notified_of_a_change(connection: Any) -> None:
    one, other, box = Writer(connection, "a"), Writer(connection, "b"), Box()
    assert other.read(box=box) == Stored()
    written = one.write(b"1").stored
    assert box.rang.wait(5)
    assert (box.events, other.read()) == ([Changed(KEY)], written)


def test_a_change_is_found_though_nothing_was_heard(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Writer(connection, "a"), Writer(connection, "b")
    monkeypatch.setattr(Notifications, "ring", lambda *_: None)
    box = Box()
    other.read(box=box)
    one.write(b"1")
    assert box.rang.wait(5)
    assert box.events == [Changed(KEY)]


def test_a_second_watcher_does_not_hide_from_the_first_what_it_did_not_hear(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Writer(connection, "a"), Writer(connection, "b")
    monkeypatch.setattr(Notifications, "ring", lambda *_: None)
    monkeypatch.setattr(other.connection.session, "tick", lambda: None)
    first, second, third = Box(), Box(), Box()
    other.read(box=first)
    one.write(b"1")
    other.read(box=second)
    assert first.events == [Changed(KEY)]
    other.read(box=third)
    other.read(box=Box())
    assert third.events == []  # nothing has changed since


# A power cut.


def synced(said: list[str]) -> list[str]:
    """Return, of what a connection was told, how it was to commit, and what."""
    words = ("PRAGMA synchronous =", "INSERT INTO value", "DELETE FROM value", "COMMIT")
    return [line.strip().split("(")[0].strip() for line in said if line.strip().startswith(words)]


@pytest.mark.parametrize("data", [b"1", None])
def test_a_value_is_on_the_disk_before_it_is_said_to_be_written(connection: Any, data: bytes | None) -> None:
    one = Writer(connection, "a")
    said: list[str] = []
    db = one.connection.session._database.connection()
    db.set_trace_callback(said.append)
    assert one.write(data).done
    begins, change, ends, after = synced(said)
    assert (begins, ends, after) == ("PRAGMA synchronous = FULL", "COMMIT", "PRAGMA synchronous = 1")
    assert "value" in change
    said.clear()
    for op in (Renew((), 1.0), Read(KEY, watch=True)):
        one.connection.ask(command("a", op), 5.0)
    carried(one.connection, "a", one.protocol.settle(Settle(Write(KEY, b"", 99)), one.context))
    assert set(synced(said)) == {"COMMIT"}
    db.set_trace_callback(None)


def test_an_interrupt_as_the_transaction_has_begun_is_not_swallowed(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)

    def struck() -> None:
        with schema.synced(db):
            db.execute("BEGIN IMMEDIATE")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        struck()
    db.execute("ROLLBACK")
    db.close()


def test_where_every_commit_is_synced_it_stays_so(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "machine", lambda: "")
    one = Writer(connection, "a")
    one.write(b"1")
    db = one.connection.session._database.connection()
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_after_a_power_cut_a_value_is_there_and_its_versions_go_on_rising(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on the disk for certain is what was there at the last synced commit."""
    url = f"sqlite://{tmp_path}/locks.db"
    with recipes.connect(url) as client:
        client.value("x").set(b"1")
        for name in ("locks.db", "locks.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"synced-{name}")
        lost = [client.lock(f"{number}").acquire().token for number in range(5)]
    for name in ("locks.db", "locks.db-wal"):
        shutil.move(tmp_path / f"synced-{name}", tmp_path / name)
    monkeypatch.setattr(schema, "machine", lambda: "the next boot")
    with recipes.connect(url) as client:
        value = client.value("x")
        found = value.get()
        assert found is not None
        assert found.data == b"1"
        assert value.set_if(b"2", found.version)
        after = value.get()
        assert after is not None
        assert after.version > max(token for token in lost if token is not None)


def test_a_write_that_breaks_leaves_no_trace(file: File) -> None:
    file.start("a")
    first = put(file, "a", b"1")
    file.db.execute("CREATE TRIGGER broken BEFORE UPDATE ON value BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(sqlite3.IntegrityError):
        put(file, "a", b"2", first.version, 2)
    file.db.execute("DROP TRIGGER broken")
    assert put(file, "a", b"2", first.version, 2).stored == Stored(b"2", EPOCH + 2)
