"""Opening a file: what is refused and what is said, who makes the tables, and what a restart means."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import recipes
from recipes import StoreRefused, _disks
from recipes.stores._kit.session import Busy
from recipes.stores.sqlite import location, schema
from recipes.stores.sqlite.schema import EPOCH, connect, meaning
from tests.threads import until_ended


def opening(path: Path) -> str:
    """Return what is said on opening this file."""
    client = recipes.connect(f"sqlite://{path}")
    with pytest.raises(StoreRefused) as refused:
        client.open()
    client.close()
    assert refused.value.store == f"sqlite://{path}"
    return str(refused.value)


def made(path: Path) -> sqlite3.Connection:
    return connect(str(path), "label", lambda db: False)


def opening_as_is(path: Path) -> recipes.StoreError:
    """Return the error of opening this file, whichever it is."""
    client = recipes.connect(f"sqlite://{path}")
    with pytest.raises(recipes.StoreError) as failed:
        client.open()
    client.close()
    return failed.value


def test_a_platform_without_fcntl_is_refused_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for connect_by in (recipes.connect, recipes.connect_async):
        with pytest.raises(StoreRefused, match=r"locks\.db refused: this platform has no fcntl"):
            connect_by(f"sqlite://{tmp_path}/locks.db")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_looked_at_says_why(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 300)
    assert f"File name too long: '{folder}'" in opening(folder / "locks.db")


def test_a_connection_that_leads_in_a_circle_says_why(tmp_path: Path) -> None:
    (tmp_path / "locks.db").symlink_to(tmp_path / "locks.db")
    assert f"symbolic links: '{tmp_path}/locks.db'" in opening(tmp_path / "locks.db")


def test_a_connection_to_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locks.db").symlink_to(tmp_path / "gone" / "locks.db")
    assert f"the directory {tmp_path}/gone does not exist" in opening(tmp_path / "locks.db")


@pytest.mark.parametrize("free", range(12))
def test_a_process_with_too_many_files_open_says_so(tmp_path: Path, free: int) -> None:
    """However many it still has; and it is no reason to give up for good."""
    made(tmp_path / "locks.db").close()
    until_ended("recipes-listener", 30)
    gc.collect()  # what other tests left closes no file from here on
    used = len(list(Path("/proc/self/fd").iterdir())) - 1
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    filling = [os.open(tmp_path, os.O_RDONLY) for _ in range(256 - used)]
    client = recipes.connect(f"sqlite://{tmp_path}/locks.db", request_timeout=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(filling) + 1, before[1]))
    try:
        for one in filling[:free]:
            os.close(one)
        left = sum(not _is_open(number) for number in range(max(filling) + 1))
        try:
            client.open()
        except recipes.StoreUnavailable as error:
            assert "Too many open files" in str(error)  # noqa: PT017 - it may also work
        else:
            assert left > 4  # a thread of another test may have closed one more
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for one in filling[free:]:
            os.close(one)
        client.close()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_what_is_refused_is_one_error_and_no_chain_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk\n" * 500)
    for path in (tmp_path / "no/where/locks.db", tmp_path / "notes.txt", tmp_path / ("d" * 300) / "locks.db"):
        said = "".join(traceback.format_exception(opening_as_is(path)))
        assert said.count("Traceback (most recent call last)") == 1


def test_a_missing_directory(tmp_path: Path) -> None:
    assert "no/where does not exist; make it first" in opening(tmp_path / "no/where/locks.db")


def test_a_directory(tmp_path: Path) -> None:
    assert "is no regular file" in opening(tmp_path)


def test_a_file_with_two_names(tmp_path: Path) -> None:
    with recipes.connect(f"sqlite://{tmp_path}/locks.db") as client:
        grant = client.lock("x").acquire()
        (tmp_path / "other.db").hardlink_to(tmp_path / "locks.db")
        for name in ("other.db", "locks.db"):
            assert "has other names (hard links)" in opening(tmp_path / name)
        (tmp_path / "other.db").unlink()
        (tmp_path / "linked.db").symlink_to(tmp_path / "locks.db")  # which SQLite resolves
        with recipes.connect(f"sqlite://{tmp_path}/linked.db") as other:
            assert other.lock("x").try_acquire() is None
        assert grant.verify()


def test_a_file_that_is_mounted_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "locks.db").close()
    mounts(monkeypatch, (f"{tmp_path}/locks.db", "ext4"))
    assert "is mounted by itself" in opening(tmp_path / "locks.db")
    mounts(monkeypatch, (str(tmp_path), "ext4"))
    recipes.connect(f"sqlite://{tmp_path}/locks.db").open().close()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: mounting needs root")
def test_a_file_that_really_is_mounted_by_itself(tmp_path: Path) -> None:
    inside = tmp_path / "inné" / "locks.db"
    inside.parent.mkdir()
    inside.touch()
    made(tmp_path / "locks.db").close()
    mount = ["mount", "--bind", str(tmp_path / "locks.db"), str(inside)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: mounting is not allowed here")
    try:
        assert "mount its directory instead" in opening(inside)
    finally:
        subprocess.run(["umount", "--lazy", str(inside)], check=True)


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk\n" * 500)
    assert "the file is no SQLite database" in opening(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text().startswith("remember")


def test_another_programs_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "app.db") as db:
        db.execute("CREATE TABLE customer (name TEXT)")
    db.close()
    assert "another program's database; name a file of its own" in opening(tmp_path / "app.db")
    with sqlite3.connect(tmp_path / "app.db") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # nothing was touched
    db.close()


def test_a_newer_schema(tmp_path: Path) -> None:
    db = made(tmp_path / "locks.db")
    db.execute("PRAGMA user_version = 4")
    db.close()
    assert "made by a newer version of this package (schema 4); upgrade here" in opening(
        tmp_path / "locks.db"
    )


BEFORE_VALUES = """
DROP TABLE value;
DROP TRIGGER receipts;
DROP TABLE receipt;
"""
OLDER = f"""{BEFORE_VALUES}
DROP TABLE contender;
DROP TABLE observer;
CREATE TABLE contender (
    queue TEXT NOT NULL, token INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL,
    downgraded INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', PRIMARY KEY (queue, token)
) WITHOUT ROWID;
PRAGMA user_version = 2;
"""


def older(path: Path) -> sqlite3.Connection:
    """Return a connection of a client of version 2, which has the file open."""
    db = made(path)
    db.executescript(OLDER)
    return db


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_schema_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "locks.db"
    db = older(path)
    db.execute("INSERT INTO session VALUES ('s', 1e9, 1e9)")
    for token, kind, downgraded in ((5, "W", 1), (6, "R", 0), (7, "W", 0)):
        row = ("x", token, f"id-{token}", kind, "s", downgraded, f"note {token}")
        db.execute("INSERT INTO contender VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if version == 1:
        db.execute("ALTER TABLE contender DROP COLUMN note")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    for _ in range(2):
        new = made(path)
        assert new.execute("SELECT * FROM contender ORDER BY token").fetchall() == [
            ("x", 5, "id-5", "W", "s", "downgraded", "note 5" * (version > 1), b"", 1),
            ("x", 6, "id-6", "R", "s", "", "note 6" * (version > 1), b"", 0),
            ("x", 7, "id-7", "W", "s", "", "note 7" * (version > 1), b"", 0),
        ]
        assert new.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert {"value", "receipt", "receipts"} <= dict(tables(new)).keys()
        new.close()
    with recipes.connect(f"sqlite://{path}", owner="me") as client:
        assert client.rwlock("x").reader.try_acquire() is None  # the last writer waits behind a reader
        assert client.lock("x").try_acquire() is None
        client.lock("y").acquire()
        assert [one.owner for one in client.lock("y").holders()] == ["me"]


def test_a_file_from_before_there_were_values_has_them(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    db = made(path)
    as_made = tables(db)
    db.executescript(BEFORE_VALUES)
    db.execute("INSERT INTO session VALUES ('s', 1e9, 1e9)")
    db.execute("INSERT INTO contender (queue, token, id, kind, session) VALUES ('x', 5, 'id', 'W', 's')")
    with recipes.connect(f"sqlite://{path}") as client:
        client.value("x").set(b"1")
        assert client.lock("x").try_acquire() is None
    assert tables(db) == as_made
    assert row(db, "PRAGMA user_version") == (schema.VERSION,) == (3,)  # so that such a client may open it
    db.close()


def test_a_client_from_before_there_were_values_goes_on_beside_one_that_has_them(tmp_path: Path) -> None:
    """With the statements that it has: what ends a session ends its receipts, whoever does it."""
    path = tmp_path / "locks.db"
    db = made(path)
    db.executescript(BEFORE_VALUES)
    with recipes.connect(f"sqlite://{path}") as client:
        client.value("x").set(b"1")
        grant = client.lock("x").acquire()
        assert db.execute("SELECT token, kind FROM contender WHERE queue = 'x'").fetchall() == [
            (grant.token, "W")
        ]
        db.execute("INSERT INTO observer (queue, session, state) VALUES ('x', 's', NULL)")
        grant.release()
        assert db.execute("SELECT * FROM observer").fetchall() == []
        assert row(db, "SELECT COUNT(*) FROM receipt") == (1,)
        db.execute("DELETE FROM session")
        assert row(db, "SELECT COUNT(*) FROM receipt") == (0,)
        found = client.value("x").get()  # by the next session
        assert found is not None
        assert found.data == b"1"
    db.close()


def tables(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()


def test_an_upgrade_that_breaks_leaves_the_older_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = older(tmp_path / "locks.db")
    db.execute("INSERT INTO contender (queue, token, id, kind, session) VALUES ('x', 5, 'id', 'W', 's')")
    monkeypatch.setattr(schema, "CONTENDER", schema.CONTENDER + ";\nSELECT nothing")
    with pytest.raises(sqlite3.OperationalError):
        made(tmp_path / "locks.db")
    assert db.execute("SELECT downgraded, note FROM contender").fetchall() == [(0, "")]
    assert "value" not in dict(tables(db))
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


def test_many_may_bring_the_schema_up_to_date_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = schema.transaction

    @contextmanager
    def after_another(db: sqlite3.Connection, how: str = "IMMEDIATE") -> Iterator[None]:
        monkeypatch.setattr(schema, "transaction", real)
        made(tmp_path / "locks.db").close()
        with real(db, how):
            yield

    older(tmp_path / "locks.db").close()
    monkeypatch.setattr(schema, "transaction", after_another)
    made(tmp_path / "locks.db").close()


def test_a_client_of_the_older_schema_releases_what_it_holds_and_is_refused_the_rest(tmp_path: Path) -> None:
    """With the statements that it has."""
    db = older(tmp_path / "locks.db")
    db.execute("INSERT INTO session VALUES ('s', 1e9, 1e9)")
    db.execute("INSERT INTO contender (queue, token, id, kind, session) VALUES ('x', 5, 'id', 'W', 's')")
    with recipes.connect(f"sqlite://{tmp_path}/locks.db") as client:
        assert client.lock("x").try_acquire() is None
        for statement in (
            "SELECT token, id, kind, session, downgraded FROM contender WHERE queue = 'x'",
            "UPDATE contender SET downgraded = 1 WHERE queue = 'x'",
            "INSERT INTO contender (queue, token, id, kind, session, note) VALUES ('', 9, '', '', '', '')",
        ):
            with pytest.raises(sqlite3.OperationalError) as refused:
                db.execute(statement)
            assert isinstance(meaning(refused.value, "label"), StoreRefused)
        assert db.execute("SELECT ttl_s FROM session WHERE id = 's'").fetchone() == (1e9,)
        assert db.execute("UPDATE session SET expires_at = 1e9 WHERE id = 's'").rowcount == 1
        assert db.execute("SELECT session FROM contender WHERE queue = 'x' AND token = 5").fetchone() == (
            "s",
        )
        assert db.execute("SELECT session FROM watch WHERE token = 5 ORDER BY waiter").fetchall() == []
        gone = "DELETE FROM contender WHERE queue = 'x' AND token = 5 AND session = 's'"
        assert db.execute(gone).rowcount == 1
        assert client.lock("x").try_acquire()
    db.close()


@pytest.mark.parametrize("how", ["PRAGMA journal_mode = DELETE", "VACUUM INTO"])
def test_a_file_of_ours_whose_journal_is_another_is_shared_as_before(tmp_path: Path, how: str) -> None:
    path = tmp_path / "locks.db"
    db = made(path)
    if how == "VACUUM INTO":
        path = tmp_path / "restored.db"
        db.execute(f"VACUUM INTO '{path}'")
    else:
        db.execute(how)
    db.close()
    with recipes.connect(f"sqlite://{path}") as client, client.lock("x"):
        with sqlite3.connect(path) as looking:
            assert row(looking, "PRAGMA journal_mode") == ("wal",)
        looking.close()


def test_a_file_of_ours_whose_journal_is_in_use_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    db = made(path)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as refused:
        made(path)
    assert isinstance(meaning(refused.value, "label"), Busy)
    db.execute("COMMIT")
    db.close()
    made(path).close()


def test_a_table_that_somebody_dropped(tmp_path: Path) -> None:
    db = made(tmp_path / "locks.db")
    db.execute("DROP TABLE session")
    db.close()
    assert "the tables are not as they should be (no such table: session)" in opening(tmp_path / "locks.db")


def mounts(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    monkeypatch.setattr(_disks, "_mounts", lambda: iter([("/", "ext4"), *entries]))


ABROAD = ["nfs4", "cifs", "9p", "fuse", "fuse.sshfs", "virtiofs", "pvfs2", "wekafs", "panfs", "fakeowner"]


@pytest.mark.parametrize("kind", ABROAD)
def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts(monkeypatch, (str(tmp_path), kind))
    said = opening(tmp_path / "locks.db")
    assert f"is on {kind}, where locks and shared memory cannot be relied on" in said
    assert "put the file on a local disk, or use etcd:// or zookeeper:// for several machines" in said
    assert list(tmp_path.iterdir()) == []


def test_a_local_disk_that_is_mounted_by_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, (str(tmp_path), "fuseblk"))
    recipes.connect(f"sqlite://{tmp_path}/locks.db").open().close()


def test_only_the_file_system_below_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(monkeypatch, (f"{tmp_path}-other", "nfs"), (str(tmp_path), "nfs"), (str(tmp_path), "tmpfs"))
    assert _disks.file_system(tmp_path) == "tmpfs"  # mounted over the other
    mounts(monkeypatch)
    assert _disks.file_system(tmp_path) == "ext4"
    monkeypatch.setattr(_disks, "_mounts", lambda: iter(()))
    assert _disks.file_system(tmp_path) == ""


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"/my\040disk", "/my disk"), ("/mnt/données", "/mnt/données"), (r"/a\134b\012é", "/a\\b\né")],
)
def test_mounts_are_read_as_the_kernel_writes_them(
    monkeypatch: pytest.MonkeyPatch, written: str, meant: str
) -> None:
    line = f"36 35 98:0 /mnt1 {written} rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue\n"
    monkeypatch.setattr(Path, "read_bytes", lambda self: 2 * line.encode())
    assert list(_disks._mounts()) == [(meant, "ext3")] * 2


def test_where_there_are_no_mounts_to_read_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Path, **_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(Path, "read_bytes", missing)
    assert list(_disks._mounts()) == []
    assert location.machine() == ""


@pytest.mark.parametrize(
    ("offsets", "is_plain"),
    [("monotonic 0 0\nboottime 0 0\n", True), ("monotonic 0 0\nboottime 5 0\n", False)],
)
def test_a_clock_of_its_own_is_another_machine(
    monkeypatch: pytest.MonkeyPatch, offsets: str, is_plain: bool
) -> None:
    texts = {"boot_id": "b-1\n", "timens_offsets": offsets}
    monkeypatch.setattr(Path, "read_text", lambda self, **_: texts[self.name])
    assert (location.machine() == "b-1") is is_plain
    del texts["timens_offsets"]

    def old_kernel(self: Path, **_: object) -> str:
        if self.name not in texts:
            raise FileNotFoundError
        return texts[self.name]

    monkeypatch.setattr(Path, "read_text", old_kernel)
    assert location.machine() == "b-1"


def denied(monkeypatch: pytest.MonkeyPatch, what: Path) -> None:
    """Deny writing to one path, as for a user who is not root."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != what and real(path, mode))


def test_a_directory_and_a_file_that_are_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "locks.db"
    made(file).close()
    denied(monkeypatch, tmp_path)
    assert "is not writable; SQLite keeps files beside the database" in opening(file)
    monkeypatch.undo()
    denied(monkeypatch, file)
    assert f"{file} is not writable" in opening(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: mounting needs root")
def test_a_disk_that_is_mounted_read_only(tmp_path: Path) -> None:
    made(tmp_path / "locks.db").close()
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    if subprocess.run(mount, shell=True, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: mounting is not allowed here")
    try:
        assert "is not writable" in opening(tmp_path / "locks.db")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_many_may_make_the_file_at_once(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def make(path: Path, start: threading.Barrier) -> None:
        start.wait(10)
        while True:
            try:
                made(path).close()
            except sqlite3.OperationalError as error:
                if isinstance(meaning(error, ""), Busy):
                    continue
                failed.append(error)
            except BaseException as error:
                failed.append(error)
            return

    for number in range(8):
        start = threading.Barrier(4)
        args = (tmp_path / f"{number}.db", start)
        crew = [threading.Thread(target=make, args=args) for _ in range(4)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join(20)
    assert failed == []


def test_sqlite_itself_never_waits_for_another_process(tmp_path: Path) -> None:
    """It would for as long as it was told to, whatever the caller allows."""
    both = [made(tmp_path / "locks.db") for _ in range(2)]  # the second finds the room that the first made
    assert [row(db, "PRAGMA busy_timeout") for db in both] == [(0,), (0,)]
    for db in both:
        db.close()


# A restart of the machine.


def row(db: sqlite3.Connection, sql: str) -> tuple[object, ...]:
    found: tuple[object, ...] = db.execute(sql).fetchone()
    return found


def test_after_a_restart_nobody_holds_and_tokens_are_larger_than_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = made(tmp_path / "locks.db")
    assert row(db, "SELECT token FROM machine") == (EPOCH,)
    db.execute("UPDATE machine SET token = token + 77")
    db.execute("INSERT INTO session VALUES ('s', 15, 1e9)")
    db.execute("INSERT INTO contender VALUES ('x', 5, 'id', 'W', 's', '', '', '', 0)")
    db.execute("INSERT INTO observer VALUES ('x', 's', NULL)")
    db.execute("INSERT INTO watch VALUES (5, 's', 6)")
    db.close()
    again = made(tmp_path / "locks.db")  # the same boot: nothing happens
    assert row(again, "SELECT (SELECT token FROM machine), (SELECT COUNT(*) FROM contender)") == (
        EPOCH + 77,
        1,
    )
    assert row(again, "PRAGMA synchronous") == (1,)
    assert row(again, "PRAGMA journal_mode") == ("wal",)
    again.close()
    monkeypatch.setattr(schema, "machine", lambda: "the next boot")
    after = made(tmp_path / "locks.db")
    assert row(after, "SELECT token FROM machine") == (2 * EPOCH,)
    for table in ("session", "contender", "watch", "observer"):
        assert row(after, f"SELECT COUNT(*) FROM {table}") == (0,)
    assert row(after, "PRAGMA synchronous") == (1,)
    after.close()


def test_the_number_of_a_boot_is_synced_before_anybody_has_a_token_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def traced(*args: object, **options: object) -> sqlite3.Connection:
        db = real(*args, **options)  # type: ignore[arg-type]
        db.set_trace_callback(said.append)
        return db

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", traced)
    made(tmp_path / "locks.db").close()
    steps = [line for line in said if "synchronous" in line or "SET boot" in line or line == "COMMIT"]
    at = next(number for number, line in enumerate(steps) if "SET boot" in line)
    assert [line.split(" =")[0] for line in steps[at - 1 : at + 3]] == [
        "PRAGMA synchronous",
        "UPDATE machine SET boot",
        "COMMIT",
        "PRAGMA synchronous",
    ]
    assert (steps[at - 1][-4:], steps[at + 2][-6:]) == ("FULL", "NORMAL")


def test_a_power_cut_takes_back_grants_and_no_token_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    with recipes.connect(url) as client:
        for name in ("locks.db", "locks.db-wal"):  # what is on the disk for certain: the first synced commit
            shutil.copy(tmp_path / name, tmp_path / f"synced-{name}")
        tokens = [client.lock("x").acquire().token]
        for _ in range(20):
            client.grants[0].release()
            tokens.append(client.lock("x").acquire().token)
    for name in ("locks.db", "locks.db-wal"):
        shutil.move(tmp_path / f"synced-{name}", tmp_path / name)
    monkeypatch.setattr(schema, "machine", lambda: "the next boot")
    with recipes.connect(url) as client:
        assert client.lock("x").acquire(timeout=5).token > max(tokens)


def test_where_a_restart_cannot_be_seen_every_commit_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "machine", lambda: "")
    db = made(tmp_path / "locks.db")
    assert row(db, "PRAGMA synchronous") == (2,)
    db.close()


def test_what_is_synced_is_synced_past_the_cache_of_the_disk(tmp_path: Path) -> None:
    """On macOS; elsewhere a sync does so, and this is no more than a flag."""
    db = made(tmp_path / "locks.db")
    assert row(db, "PRAGMA fullfsync") == row(db, "PRAGMA checkpoint_fullfsync") == (1,)
    db.close()


def test_a_file_that_lives_under_another_kernel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recipes.connect(f"sqlite://{tmp_path}/locks.db") as client:
        grant = client.lock("x").acquire()
        monkeypatch.setattr(schema, "machine", lambda: "another sandbox")
        assert "in use under another kernel or clock" in opening(tmp_path / "locks.db")
        assert grant.verify()


# What errors mean.


def test_an_error_that_nobody_knows_may_pass() -> None:
    assert isinstance(meaning(sqlite3.ProgrammingError("closed"), "f"), recipes.StoreUnavailable)


def test_a_journal_that_cannot_be_shared(tmp_path: Path) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *args: object) -> sqlite3.Cursor:  # type: ignore[override]
            return super().execute("SELECT 'memory'" if "journal_mode" in sql else sql, *args)  # type: ignore[arg-type]

    db = sqlite3.connect(tmp_path / "locks.db", factory=Stubborn)
    with pytest.raises(StoreRefused, match="its journal stays 'memory'"):
        schema._prepare(db, "label")
    db.close()
