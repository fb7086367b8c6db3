"""Descriptors that other code of the process closes, and that other files get the numbers of."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import StoreRefused
from recipes import _descriptors as descriptors
from recipes._contract.operations import Renewal
from recipes._contract.wakeups import Gone
from recipes._descriptors import TAKEN, Descriptor
from recipes._run.clock import boot_time
from recipes.errors import SessionLost
from recipes.stores._kit.tasks import AsyncQueueConnection
from recipes.stores.sqlite import filelock
from recipes.stores.sqlite.descriptors import Files, Opening, open_files
from recipes.stores.sqlite.liveness import Folder, LivenessLock
from recipes.stores.sqlite.notifications import Notifications
from recipes.stores.sqlite.schema import connect
from recipes.stores.sqlite.session import FileSession
from tests.contract.world import until
from tests.run.test_fork import in_child
from tests.stores.sqlite.closer import MANY
from tests.stores.sqlite.connecting import Box, finish, join, queued, renew, start

ROOT = Path(__file__).parents[3]
RENEWED_S = 3.0
"""After how many seconds a session of nine is renewed."""
SESSION = ("lifeline", "bell", "database", "log", "memory")
LISTENER = ("waking", "woken")


class Stranger:
    """A file of somebody else's under a number that was the package's."""

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.dup2(opened, number)
        os.close(opened)
        self.is_ = os.fstat(number)
        assert filelock.take(number)
        os.write(number, b"mine")

    def check(self) -> None:
        """It is open, nobody else wrote to it, and its lock is where it was."""
        assert os.path.samestat(os.fstat(self.number), self.is_)
        assert self.path.read_bytes() == b"mine"
        with self.path.open("r+b") as looking:
            assert filelock.is_taken(looking.fileno())


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Any]:
    made: list[Stranger] = []

    def take(number: int) -> Stranger:
        assert number >= 0
        made.append(Stranger(number, tmp_path / f"theirs-{len(made)}"))
        return made[-1]

    yield take
    for one in made:
        os.close(one.number)


@pytest.fixture
def folder(path: str) -> Folder:
    Path(path).touch(0o600)
    one = Folder(path)
    one.make()
    return one


def numbers_of(connection: Any) -> dict[str, int]:
    """Return what a connection has open, by what it is for."""
    session: FileSession = connection.session
    assert session._liveness is not None
    assert session.notifications is not None
    assert session.notifications.socket is not None
    assert session._database._files is not None
    files = [number for ((number, _),) in session._database._files._any_of]
    found = [session._liveness.descriptor, session.notifications.socket.fileno(), *files]
    listener = [one.number for one in getattr(connection, "_own", ())]
    return dict(zip((*SESSION, *LISTENER), (*found, *listener), strict=False))


def test_a_number_that_another_file_has_is_not_closed(tmp_path: Path, stranger: Any) -> None:
    one = Descriptor(os.open(tmp_path, os.O_RDONLY))
    assert (one.mine, one.taken) == (True, False)
    theirs = stranger(one.number)
    assert (one.mine, one.taken) == (False, True)
    one.close()
    assert (one.mine, one.taken) == (False, False)
    theirs.check()


def test_a_number_that_nobody_has_is_not_closed_either(tmp_path: Path) -> None:
    one = Descriptor(os.open(tmp_path, os.O_RDONLY))
    os.close(one.number)
    assert one.taken
    one.close()
    one.close()


def test_who_looks_while_it_is_closed_here_takes_it_for_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close_first(of: int) -> Any:
        if not closed:
            closed.append(True)
            one.close()
        return real(of)

    one = Descriptor(os.open(tmp_path, os.O_RDONLY))
    closed: list[bool] = []
    real = descriptors.identity
    monkeypatch.setattr(descriptors, "identity", close_first)
    assert not one.taken
    assert closed


def test_a_socket_is_let_go_of_before_it_is_finalized(stranger: Any) -> None:
    ends = socket.socketpair()
    own = [Descriptor(end) for end in ends]
    theirs = stranger(own[0].number)
    for one in own:
        one.close()
    assert [end.fileno() for end in ends] == [-1, -1]
    del ends
    gc.collect()
    theirs.check()


def test_a_liveness_lock_leaves_what_has_its_number_alone(folder: Folder, stranger: Any) -> None:
    one = LivenessLock(folder, "a")
    theirs = stranger(one.descriptor)
    assert one.taken
    assert one.descriptor == -1  # nor is it handed to a child
    assert folder.dead(["a"]) == ["a"]
    one.drop()
    theirs.check()


@pytest.mark.parametrize("which", ["_own", "_directory"])
def test_a_notification_socket_reads_nothing_of_what_has_its_number_and_says_nothing_with_it(
    path: str, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr("recipes.stores.sqlite.notifications.LONGEST_ADDRESS", 0)
    Path(path).touch()
    folder = Folder(path)
    folder.make()
    notifications, other = Notifications(folder, "a"), Notifications(folder, "b")
    sending, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    number = getattr(notifications, which).number
    os.dup2(theirs.fileno(), number)
    sending.send(b"-x/1")
    assert notifications.taken
    assert notifications.hear() == ([], False)
    notifications.ring("b", [Gone("x/1")])
    assert other.hear() == ([], False)
    notifications.close()
    other.close()
    reading = socket.socket(fileno=number)
    assert reading.recv(100) == b"-x/1"
    for end in (sending, theirs, reading):
        end.close()


@pytest.mark.parametrize("what", SESSION)
def test_a_session_whose_descriptor_was_closed_is_given_up_by_the_next_renewal(
    connection: Any, stranger: Any, what: str
) -> None:
    a = connection("a")
    token = join(a, "a")
    theirs = stranger(numbers_of(a)[what])
    with pytest.raises(SessionLost, match="was closed by other code of this process"):
        a.ask(renew("a", token), 1.0)
    a.close()
    a.close()
    gc.collect()
    theirs.check()


@pytest.mark.parametrize("what", ["lifeline", "bell"])
def test_a_session_that_was_given_up_is_ended_for_all_that(connection: Any, stranger: Any, what: str) -> None:
    a, b = connection("a"), connection("b")
    join(a, "a")
    box = Box()
    own = join(b, "b", box)
    stranger(numbers_of(a)[what])
    a.ask(finish("a"), 1.0)
    assert box.rang.wait(5)
    assert b.ask(renew("b", own), 1.0) == Renewal(5.0)


@pytest.mark.parametrize("what", LISTENER)
def test_a_listener_whose_socket_was_closed_tells_that_the_session_has_ended(
    connection: Any, stranger: Any, what: str
) -> None:
    a, b = connection("a"), connection("b")
    join(b, "b")
    numbers = numbers_of(a)
    theirs = stranger(numbers[what])
    join(a, "a", Box())  # somebody waits: the listener would have to be woken
    b.session.notifications.ring("a")  # as sooner or later anybody does
    assert until(lambda: connection.ended == [("a", TAKEN)], 5)
    listener = a._listeners["now"]
    a.close()
    listener.join(5)
    assert not listener.is_alive()
    theirs.check()


def test_what_wakes_the_listener_is_not_said_to_another(connection: Any) -> None:
    a = connection("a")
    theirs, reading = socket.socketpair()
    number = numbers_of(a)["waking"]
    os.dup2(theirs.fileno(), number)
    a._poke()
    reading.setblocking(False)
    with pytest.raises(BlockingIOError):
        reading.recv(10)
    a.close()
    for end in (theirs, reading, socket.socket(fileno=number)):
        end.close()


def test_a_listener_notices_at_once_that_its_sockets_were_closed_and_ends(connection: Any) -> None:
    a = connection("a")
    numbers = numbers_of(a)
    for what in LISTENER:
        os.close(numbers[what])
    a._listeners["now"].join(5)
    assert not a._listeners["now"].is_alive()
    assert connection.ended == [("a", TAKEN)]


@pytest.mark.parametrize("what", SESSION)
def test_an_asyncio_session_whose_descriptor_was_closed_is_given_up(
    path: str, stranger: Any, what: str
) -> None:
    async def scenario() -> None:
        connection = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        await connection.ask(start("a"), 10.0)
        theirs = stranger(numbers_of(connection)[what])
        with pytest.raises(SessionLost, match="was closed by other code"):
            await connection.ask(renew("a"), 10.0)
        await connection.close()
        theirs.check()

    asyncio.run(scenario())


def test_what_is_heard_under_a_number_that_was_a_notification_sockets_is_heard_by_its_owner(
    path: str,
) -> None:
    async def scenario() -> None:
        connection = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        await connection.ask(start("a"), 10.0)
        number = numbers_of(connection)["bell"]
        sending, theirs = socket.socketpair()
        os.dup2(theirs.fileno(), number)
        with pytest.raises(SessionLost):
            await connection.ask(renew("a"), 10.0)
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(number, heard.set)
        await connection.close()
        sending.send(b"x")
        await asyncio.wait_for(heard.wait(), 5)
        loop.remove_reader(number)
        for end in (sending, theirs, socket.socket(fileno=number)):
            end.close()

    asyncio.run(scenario())


def test_an_asyncio_connection_that_hears_for_another_gives_up(path: str) -> None:
    """Where the loop goes on looking at the number (it does with ``select``), not at what was open."""

    async def scenario() -> None:
        ended: list[str] = []
        connection = AsyncQueueConnection(FileSession(path, "label", ended.append))
        await connection.ask(start("a"), 10.0)
        number = numbers_of(connection)["bell"]
        sending, theirs = socket.socketpair()
        os.dup2(theirs.fileno(), number)
        connection._hear()
        assert ended == [TAKEN]
        sending.send(b"x")
        reading = socket.socket(fileno=number)
        assert reading.recv(10) == b"x"
        await connection.close()
        for end in (sending, theirs, reading):
            end.close()

    asyncio.run(scenario())


# A process that closes all.


def test_fault_43_all_descriptors_are_closed_while_another_process_waits(path: str, tmp_path: Path) -> None:
    url, theirs = f"sqlite://{path}", tmp_path / "theirs"
    theirs.mkdir()
    command = [sys.executable, "-m", "tests.stores.sqlite.closer", url, str(theirs)]
    closer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert closer.stdout is not None
    token = int(closer.stdout.readline())
    with recipes.connect(url) as client:
        granted: list[tuple[float, int]] = []

        def wait() -> None:
            grant = client.lock("x").acquire(timeout=30)
            granted.append((boot_time(), grant.token))

        waiter = threading.Thread(target=wait)
        with queued():
            waiter.start()
        out, _ = closer.communicate("close\n", timeout=60)
        waiter.join(30)
        assert closer.returncode == 0
        said = json.loads(out)
        assert TAKEN in said["reason"]
        ((at, next_token),) = granted
        assert next_token > token
        # It may be held twice until the next renewal, and no longer.
        assert said["held_until"] - at <= RENEWED_S + said["longest_step"]
        assert "StoreRefused" in said["again"]
        assert "restart it, and connect after that code" in said["again"]
        assert said["closing"] == ""
        written = {file.name: file.read_text() for file in theirs.iterdir()}
        assert written == {str(number): f"file {number}" for number in range(MANY)}
        with client.lock("y").acquire(timeout=5) as grant:  # the file is not damaged
            assert grant.verify()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


# SQLite's own.


def test_a_process_has_to_do_without_a_file_whose_locks_it_has_lost(
    connection: Any, path: str, stranger: Any
) -> None:
    a, b = connection("a"), connection("b")
    stranger(numbers_of(a)["database"])
    for name, one in (("a", a), ("b", b)):  # the kernel dropped the locks of both
        for _ in range(2):
            with pytest.raises(SessionLost, match="was closed by other code"):
                one.ask(renew(name), 1.0)
    with pytest.raises(StoreRefused, match=r"os\.closerange.*restart it, and connect after that code"):
        recipes.connect(f"sqlite://{path}").open()


def test_another_file_is_used_as_before(connection: Any, tmp_path: Path, stranger: Any) -> None:
    a = connection("a")
    stranger(numbers_of(a)["log"])
    with pytest.raises(SessionLost):
        a.ask(renew("a"), 1.0)
    with recipes.connect(f"sqlite://{tmp_path}/other.db") as client:
        assert client.lock("x").acquire(timeout=1)


@pytest.mark.parametrize("what", ["database", "log", "memory"])
def test_a_transaction_is_not_undone_in_anothers_file(connection: Any, stranger: Any, what: str) -> None:
    a = connection("a")
    database = a.session._database
    assert database.acquire(1.0)
    database.connection().execute("BEGIN IMMEDIATE")
    theirs = stranger(numbers_of(a)[what])
    database.release()
    assert database._db is None
    theirs.check()


def test_a_fork_closes_nothing_of_anothers(connection: Any, stranger: Any) -> None:
    a = connection("a")
    theirs = [stranger(number) for number in numbers_of(a).values()]

    def look() -> str:
        for one in theirs:
            one.check()
        return "all there"

    assert in_child(look) == "all there"
    assert look() == "all there"


def test_a_daemon_that_forks_and_then_closes_all_harms_neither_side(path: str, tmp_path: Path) -> None:
    with recipes.connect(f"sqlite://{path}") as client:
        grant = client.lock("x").acquire()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads are what this is about
            child = os.fork()
        if child == 0:
            works = False
            with suppress(BaseException):
                os.closerange(3, 256)
                theirs = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(MANY)]
                excluded = client.lock("x").try_acquire() is None
                with client.lock("y").acquire(timeout=10) as own:
                    works = excluded and own.token > grant.token
                client.close()
                works = works and all(os.write(number, b"mine") == 4 for number in theirs)
            os._exit(0 if works else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert {file.read_text() for file in tmp_path.iterdir() if file.name.isdecimal()} == {"mine"}
        assert grant.verify()


def test_a_child_has_nothing_open_that_its_parent_has(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.sqlite.notifications.LONGEST_ADDRESS", 0)
    before = open_files()
    a = connection("a")
    ours = {what for number, what in open_files().items() if before.get(number) != what}
    assert len(ours) >= len(SESSION) + len(LISTENER) + 1
    assert in_child(lambda: sum(what in ours for what in open_files().values())) == 0
    join(a, "a", Box())
    assert a.ask(renew("a"), 1.0)


def test_other_connections_of_the_process_come_and_go(connection: Any, path: str) -> None:
    """SQLite keeps what a closed connection had open for the next one."""
    a = connection("a")
    for _ in range(3):
        with sqlite3.connect(path) as db:
            db.execute("SELECT * FROM session").fetchall()
        connection(f"b{_}").close()
        c = connection(f"c{_}")
        db.close()
        assert c.ask(renew(f"c{_}"), 1.0)
        c.close()
        assert a.ask(renew("a"), 1.0)


def test_a_connection_that_another_thread_opened_at_the_same_time_may_go(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell which descriptors are whose then: as long as one of each file is there, all is well."""

    def connect_beside(*given: Any) -> sqlite3.Connection:
        db = real(*given)
        others.append(sqlite3.connect(path))
        others[0].execute("SELECT * FROM session").fetchall()
        return db

    others: list[sqlite3.Connection] = []
    real = connect
    with monkeypatch.context() as patched:
        patched.setattr("recipes.stores.sqlite.database.connect", connect_beside)
        a = connection("a")
    assert max(len(candidates) for candidates in a.session._database._files._any_of) == 2
    assert a.ask(renew("a"), 1.0)
    others[0].close()
    assert a.ask(renew("a"), 1.0)


@pytest.mark.parametrize("first", [True, False])
def test_what_is_new_is_not_taken_for_its_own_where_two_open_at_the_same_time(path: str, first: bool) -> None:
    """What SQLite gives a connection may be under a number that it had open for the file before."""
    own = os.open(path, os.O_RDWR | os.O_CREAT)
    openings = [Opening(), Opening()]
    another = os.open(path, os.O_RDWR)
    if first:
        files, _ = (Files(path, opening) for opening in openings)
    else:
        _, files = (Files(path, opening) for opening in openings)
    os.close(another)
    assert files.whole
    os.close(own)
    assert not files.whole


def test_one_that_cannot_be_opened_is_not_counted_as_opening(path: str) -> None:
    opening = Opening()
    opening.ends()
    own, later = os.open(path, os.O_RDWR | os.O_CREAT), Opening()
    new = os.open(path, os.O_RDWR)
    files = Files(path, later)
    os.close(new)
    assert not files.whole
    os.close(own)


def test_where_the_system_does_not_say_what_is_open_nothing_is_missed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.sqlite.descriptors.OPEN", "/nowhere")
    assert open_files() == {}
    assert Files(path, Opening()).whole
