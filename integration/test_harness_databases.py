"""Servers of databases: they start, keep, stop and forget what they should, and leave nothing behind."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from integration import servers
from integration.harness import finding
from integration.harness.database import CONNECTIONS
from integration.harness.disk import fill, on_small_disk
from integration.harness.process import eventually
from integration.needing import needed
from tests.children import child

Kind = servers.Postgres | servers.MariaDb
Connection = Any  # of psycopg, or of PyMySQL

MAKE: dict[str, Callable[..., Kind]] = {"postgres": servers.postgres, "mariadb": servers.mariadb}
HOUR_S = 3600
CLOCKS = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
    "mysql": "SELECT UNIX_TIMESTAMP(SYSDATE(6))",
}
MAKERS = {"postgresql": "postgres", "mysql": "mariadb"}
"""What makes a server, by its scheme."""
VERSIONS = {"postgres": "15", "mariadb": "10.", "mysql": ("8.", "9.")}
"""How the version of each begins."""


@pytest.fixture(params=list(MAKE))
def made(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """A server of this test's own, not yet started, that keeps what was committed."""
    one = needed(request.param, lambda: MAKE[request.param](keeps=True))
    yield one
    one.close()


@pytest.fixture
def own(made: Kind) -> Kind:
    """The same, started."""
    return made.start()


def enter(server: Kind | servers.PgBouncer, password: str = "app") -> Connection:
    """Return a connection as a user would make it."""
    place = {"host": server.host, "port": server.port, "user": "app", "password": password}
    if isinstance(server, servers.MariaDb):
        return pymysql.connect(**place, database="app", autocommit=True)
    return psycopg.connect(**place, dbname="app", autocommit=True)  # type: ignore[arg-type]


def run(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def family(server: servers.Server) -> list[int]:
    """Return the ids of all its processes."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
    return [server.pid, *map(int, children.split())]


def state(pid: int) -> str:
    """Return the state of a process, a letter, or Z if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def segments(pid: int) -> list[str]:
    """Return the shared memory that a process made and that is still there."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line for line in lines if int(line.split()[4]) == pid]


def test_a_database_has_a_user_with_a_password(own: Kind) -> None:
    assert own.url() == f"{own.scheme}://app:app@127.0.0.1:{own.port}/app"
    assert own.version().startswith(VERSIONS[own.label])
    with enter(own) as one:
        run(one, "CREATE TABLE a (n INT)")
    with pytest.raises((psycopg.OperationalError, pymysql.OperationalError)):
        enter(own, password="wrong")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS // 2):
            stack.enter_context(enter(own))
        assert own.healthy()


@pytest.mark.parametrize("name", list(MAKE))
def test_a_database_keeps_what_was_committed_over_a_kill(name: str) -> None:
    disk = Path(tempfile.gettempdir())  # in memory MariaDB keeps everything
    with needed(name, lambda: MAKE[name](keeps=True, folder=disk)) as own:
        kept_over_a_kill(own)


def kept_over_a_kill(own: Kind) -> None:
    first = own.pid
    with contextlib.closing(enter(own)) as one:
        run(one, "CREATE TABLE a (n INT)")
        for n in range(100):
            run(one, f"INSERT INTO a VALUES ({n})")
        own.kill()
        assert not own.running
        assert not own.healthy()
        with pytest.raises((psycopg.OperationalError, pymysql.OperationalError)):
            run(one, "SELECT 1")
    own.start()
    assert own.pid != first
    with enter(own) as one:
        assert run(one, "SELECT count(*) FROM a") == [(100,)]
    own.restart()
    assert own.one("SELECT count(*) FROM a") == 100
    own.restart(wipe=True)
    with pytest.raises((psycopg.ProgrammingError, pymysql.ProgrammingError)):
        own.ask("SELECT n FROM a")


def test_all_of_a_paused_database_stands_still(own: Kind) -> None:
    with contextlib.closing(enter(own)) as one:
        run(one, "SELECT 1")
        own.pause()
        states = {state(pid) for pid in family(own)}
        assert {"T"} <= states <= {"T", "Z"}  # one that was just ending stays a zombie
        assert not own.healthy()
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.extend(run(one, "SELECT 1")))
        asking.start()
        own.resume()
        asking.join(20)
        assert found == [(1,)]
    assert own.healthy()
    own.pause()
    own.stop()  # also ends a paused one
    assert not own.running


@pytest.mark.parametrize("end", ["kill", "stop", "close"])
def test_a_database_leaves_no_process_memory_or_file(own: Kind, end: str) -> None:
    with contextlib.closing(enter(own)):
        pids, home = family(own), own.home
        assert len(pids) > 1 or own.scheme == "mysql"
        getattr(own, end)()
        assert {state(pid) for pid in pids} == {"Z"}
        assert not segments(pids[0])
        own.close()
        assert not home.exists()


def test_a_database_dies_with_a_test_process_that_is_killed(own: Kind) -> None:
    program = f"""
        import sys
        from integration import servers
        server = servers.{MAKERS[own.scheme]}().start()
        print(server.pid, server.home, server._template(), flush=True)
        sys.stdin.read()
    """
    with child(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid, *folders = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert eventually(lambda: state(int(pid)) == "Z", 20)
    assert not segments(int(pid))
    subprocess.run(["rm", "-r", *folders], check=True)


def test_connections_are_ended_by_an_operator(own: Kind) -> None:
    with contextlib.closing(enter(own)) as one, contextlib.closing(enter(own)) as other:
        assert own.terminate() >= 2
        for each in (one, other):
            with pytest.raises((psycopg.OperationalError, pymysql.OperationalError)):
                run(each, "SELECT 1")
    with enter(own) as again:
        assert run(again, "SELECT 1") == [(1,)]


def test_the_clock_of_a_database_is_set(made: Kind) -> None:
    needed("a clock", lambda: made.set_clock(0))
    made.start()
    ask = CLOCKS[made.scheme]
    with enter(made) as one:
        real = float(run(one, ask)[0][0])
        made.set_clock(HOUR_S)
        assert HOUR_S <= float(run(one, ask)[0][0]) - real < HOUR_S + 300
        if isinstance(made, servers.MariaDb):  # waits by the wall clock
            with made.connect() as holder:
                assert run(holder, "SELECT GET_LOCK('a', 0)") == [(1,)]
                assert run(one, "SELECT GET_LOCK('a', 1)") == [(0,)]
        made.set_clock(0)
        assert 0 <= float(run(one, ask)[0][0]) - real < 300
    place = made.home.parent
    made.close()
    assert not [*place.glob(f"{made.home.name}*")]


def test_a_disk_of_a_database_is_filled(made: Kind) -> None:
    with contextlib.ExitStack() as stack:
        needed("a small disk", lambda: stack.enter_context(on_small_disk(made, "200m")))
        with contextlib.closing(enter(made)) as one:
            run(one, "CREATE TABLE a (n TEXT)")
            filler = fill(made.home)
            with pytest.raises((psycopg.OperationalError, pymysql.OperationalError)):
                insert_for_ever(one)
        filler.unlink()
        made.restart()
        with enter(made) as one:
            run(one, "INSERT INTO a VALUES ('y')")
            assert run(one, "SELECT count(*) FROM a WHERE n = 'y'") == [(1,)]
    assert not made.home.exists()


def insert_for_ever(connection: Connection) -> None:
    while True:
        run(connection, f"INSERT INTO a VALUES ('{'x' * 50_000}')")


def test_a_standby_lacks_what_was_committed_after_the_cut() -> None:
    with needed("postgres", servers.postgres_pair) as pair:
        first, second = pair.members
        assert pair.url("x") == f"postgresql://app:app@{first.address},{second.address}/app/x"
        assert (pair.current, pair.standby, pair.leader()) == (first, second, first)
        first.ask("CREATE TABLE a (n INT)")
        first.ask("INSERT INTO a VALUES (1)")
        pair.catch_up()
        assert second.ask("SELECT n FROM a") == [(1,)]

        def write() -> None:
            assert not pair.streams()
            first.ask("INSERT INTO a VALUES (2)")

        assert pair.fail_over(meanwhile=write) is second
        assert pair.current is pair.leader() is second
        assert second.ask("SELECT n FROM a") == [(1,)]
        with psycopg.connect(pair.url()) as one:  # finds the one that lives
            assert one.info.port == second.port
        pair.rejoin()
        second.ask("INSERT INTO a VALUES (3)")
        assert pair.fail_over(lose=0) is first
        assert first.ask("SELECT n FROM a ORDER BY n") == [(1,), (3,)]


def test_a_primary_goes_on_after_its_standby_was_promoted() -> None:
    with needed("postgres", servers.postgres_pair) as pair:
        former = pair.current
        former.ask("CREATE TABLE a (n INT)")
        pair.catch_up()
        pair.cut()
        former.ask("INSERT INTO a VALUES (1)")
        assert not pair.streams()
        assert not pair.standby.ask("SELECT n FROM a")
        pair.heal()
        pair.catch_up()
        assert pair.standby.ask("SELECT n FROM a") == [(1,)]
        promoted = pair.promote()
        assert former.leads
        assert promoted.leads
        former.ask("INSERT INTO a VALUES (2)")
        assert promoted.ask("SELECT n FROM a") == [(1,)]
        pids, homes = [pid for one in pair.members for pid in family(one)], [one.home for one in pair.members]
    assert {state(pid) for pid in pids} == {"Z"}
    assert not any(home.exists() for home in homes)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pool_keeps_a_connection_for_a_transaction_or_a_session(
    postgres_server: servers.Postgres, mode: str
) -> None:
    with needed("pgbouncer", lambda: servers.pgbouncer(postgres_server, mode=mode, pool=1)) as pool:
        assert pool.url() == f"postgresql://app:app@{pool.address}/app"
        assert pool.version()
        one, other = enter(pool), enter(pool)
        with contextlib.closing(one), contextlib.closing(other):
            (backend,) = run(one, "SELECT pg_backend_pid()")
            found: list[Any] = []
            asking = threading.Thread(target=lambda: found.extend(run(other, "SELECT pg_backend_pid()")))
            asking.start()
            if mode == "transaction":
                asking.join(20)
                assert found == [backend]
            else:
                assert eventually(lambda: any(row[3] == 1 for row in pool.show("POOLS")), 20)  # cl_waiting
                assert not found
                one.close()
                asking.join(20)
                assert found == [backend]
        pid, home = pool.pid, pool.home
    assert state(pid) == "Z"
    assert not home.exists()


def test_a_pool_finds_a_server_that_was_started_again() -> None:
    with (
        needed("postgres", servers.postgres) as server,
        needed("pgbouncer", lambda: servers.pgbouncer(server)) as pool,
        contextlib.closing(enter(pool)) as one,
    ):
        run(one, "SELECT 1")
        server.kill()
        assert pool.healthy()
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.extend(run(one, "SELECT 1")))
        asking.start()  # waits in the pool, for up to 120 s
        server.start()
        asking.join(60)
        assert found == [(1,)]


@pytest.mark.parametrize("name", ["mariadb", "pgbouncer"])
def test_databases_are_looked_for_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    find = getattr(finding, f"find_{name}")
    variable = f"RECIPES_TEST_{name.upper()}"
    monkeypatch.setenv(variable, sys.executable)
    assert find() == Path(sys.executable)
    monkeypatch.setenv(variable, "/nowhere/server")
    with pytest.raises(servers.ServerUnavailable, match=f"{variable}=/nowhere/server"):
        find()
    monkeypatch.delenv(variable)
    monkeypatch.setenv("RECIPES_TEST_NO_INSTALL", "1")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(finding, "SERVERS", "/nowhere")
    with pytest.raises(servers.ServerUnavailable, match="on the PATH"):
        find()
