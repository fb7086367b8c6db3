"""Servers, proxies and clean prefixes for the tests on real servers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest

from integration import servers
from integration.counting import kind, no_periodic_reading  # noqa: F401 - fixtures
from integration.harness import finding
from integration.lateness import Lateness
from integration.needing import needed
from integration.order import spread
from integration.proxy import Proxy
from integration.stores import ServerStore, make_tables, store_on
from tests.contract.fixtures import api, side, world  # noqa: F401 - fixtures
from tests.contract.timing import Timing
from tests.foreground import as_in_the_foreground
from tests.heap import collected, pytest_collection, pytest_collection_finish  # noqa: F401 - for pytest

as_in_the_foreground()

S = TypeVar("S", bound=servers.Server)

FIGURES = pytest.StashKey[list[str]]()
"""What was measured, told at the end of a run."""

AGAIN = {"TestWritersInterrupts", "TestPermitsInterrupts", "TestMultiLocksInterrupts", "TestWritersExclusion"}
"""Parts of the contract with the locks of other recipes."""

AGAIN_ON = {"etcd-grpc", "zookeeper-3.8"}
"""Where these, and what is on another event loop, run by default: they do not differ by store."""

BY_GATEWAY = {
    *("TestExclusion", "TestWaiting", "TestSessions", "TestHanging", "TestForeign", "TestTelling"),
    *("TestInterrupts", "TestObservations", "TestValues", "TestWatchedValues", "TestGuarded"),
}
"""The parts of the contract that ask etcd by its gateway by default: about leases, watches, comparisons.

All of them ask it by gRPC, and in `nox -s faults` by the gateway too.
"""

DATABASES = {"postgres-15", "mariadb-10.11"}
FIRST = {"TestExclusion"}
"""The part of the contract that runs on databases by default; the others run in `nox -s faults`.

All of it takes nine minutes on PostgreSQL, on two cores that have other work, and longer on MariaDB. Where a
URL names no driver, that is psycopg for both APIs, PyMySQL and asyncmy. asyncpg runs in `integration/sql`.
"""
BESIDE = {
    *("test_contract.py", "test_contract_uvloop.py", "test_budget_sql.py"),
    *("test_docs.py", "test_gevent.py", "test_recipe.py", "test_telemetry.py"),
}
"""The tests of each server that run on databases too; others lose this or that request on the way."""
ROWS = (
    *("faults/test_holder_stops.py", "faults/test_connection.py", "faults/test_leader_stops.py"),
    *("faults/test_stuck.py", "faults/test_fork.py", "faults/test_leaving.py", "faults/test_closed.py"),
)
"""The rows of the fault matrix that run on databases too, in `nox -s faults`."""

BY_GRPC = (
    *("integration/test_budget*.py", "integration/test_cost.py", "integration/test_values_etcd.py"),
    *("faults/test_connection.py", "faults/test_late_creates.py"),
    *("faults/test_lost_replies.py", "faults/test_watches.py"),
)
"""Where etcd 3.4 is asked by gRPC by default.

The other tests of lost requests ask it so in `nox -s faults` only, and by its gateway it is asked there
only, but for `BY_BOTH`: by default the gateway is that of etcd 3.5.
"""
BY_BOTH = ("clusters/test_endpoints.py",)

PAIRS = {"postgres": "blocking", "mariadb": "asyncio"}
"""With which of the two APIs each database runs by default what looks like a store with one holder."""

LATENESS = pytest.StashKey[Lateness]()
"""What measures how late the machine is while a test runs."""

SEEN = pytest.StashKey[dict[str, str]]()
"""What each server that was started said of its version."""


LONGEST = (
    *("breaking/test_breaking.py", "exactly_once/test_exactly_once.py", "pausing/test_guarded.py"),
    *("redlock/test_runs.py", "sql/test_transfers.py"),
)
"""What takes so long that one process alone would be at it when all others have ended."""


@pytest.hookimpl(wrapper=True)  # before what is deselected is, and behind that
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Run on two stores by default what does not differ by store; say what may be run once more."""
    items[:] = [item for item in items if not _reads_along(item)]
    for item in items:
        if item.get_closest_marker("measured") or _times(item):
            item.add_marker(pytest.mark.flaky(reruns=1))
        elif not config.option.usepdb:  # which goes with no test that may be run again
            item.add_marker(pytest.mark.flaky(reruns=1, condition=partial(_was_too_late, item)))
        spec = getattr(item, "callspec", None)
        if spec is not None and spec.params.get("server", "etcd-3.5") not in AGAIN_ON and _repeats(item):
            item.add_marker(pytest.mark.long)
        if spec is not None and spec.params.get("server") in DATABASES and not _first(item):
            item.add_marker(pytest.mark.long)
        if spec is not None and spec.params.get("server") == "etcd-3.4" and not _matches(item, BY_BOTH):
            item.add_marker(pytest.mark.long)
        if spec is not None and spec.params.get("server") == "etcd-3.5" and _by_grpc_alone(item):
            item.add_marker(pytest.mark.long)
        if spec is not None and spec.params.get("server") == "etcd-grpc" and _by_gateway_alone(item):
            item.add_marker(pytest.mark.long)
        if spec is not None and _matches(item, ("shedlock/test_contract.py",)) and not _paired(spec.params):
            item.add_marker(pytest.mark.long)
    yield
    processes = int(getattr(config, "workerinput", {"workercount": 1})["workercount"])
    items[:] = spread(items, lambda item: _matches(item, LONGEST), processes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin to measure how late the machine is."""
    item.stash[LATENESS] = Lateness()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of what failed how late the machine was."""
    report = yield
    if report.failed and call.excinfo is not None and LATENESS in item.stash:
        late = item.stash[LATENESS]
        late.failed(call.excinfo.value)
        if hasattr(report.longrepr, "addsection"):
            said = "\n".join(f"{who}: {late_s:.2f} s" for who, late_s in late.told().items())
            report.longrepr.addsection("Ready, and kept from running", said)
    if call.when == "teardown" and LATENESS in item.stash:
        item.stash[LATENESS].close()
    return report


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """Let a test that ended its process fail, though it is run once more."""
    report.outcome = "failed"


def _was_too_late(item: pytest.Item) -> bool:
    """Whether a test failed for no more than that the machine was late."""
    return item.stash[LATENESS].explains


def _times(item: pytest.Item) -> bool:
    """Whether it is the part of the contract about how long a call may take, which measures."""
    return isinstance(item, pytest.Function) and item.cls is not None and issubclass(item.cls, Timing)


def _by_grpc_alone(item: pytest.Item) -> bool:
    """Whether it is a part of the contract that asks etcd by gRPC alone by default."""
    contract = item.path.name == "test_contract.py" and isinstance(item, pytest.Function)
    return contract and item.cls is not None and item.cls.__name__ not in BY_GATEWAY


def _by_gateway_alone(item: pytest.Item) -> bool:
    """Whether etcd is asked by its gateway alone by default."""
    return item.path.name not in BESIDE and not _matches(item, BY_GRPC + BY_BOTH)


def _paired(parameters: dict[str, Any]) -> bool:
    return PAIRS[parameters["database"]] == parameters["api"]


def _matches(item: pytest.Item, paths: tuple[str, ...]) -> bool:
    return any(map(item.path.match, paths))


def _reads_along(item: pytest.Item) -> bool:
    """Whether it would have to read along what nothing here reads: a database's protocol."""
    spec = getattr(item, "callspec", None)
    runs = item.path.name in BESIDE or _matches(item, ROWS)
    return spec is not None and spec.params.get("server") in DATABASES and not runs


def _first(item: pytest.Item) -> bool:
    """Whether it runs on databases by default."""
    return isinstance(item, pytest.Function) and item.cls is not None and item.cls.__name__ in FIRST


def _repeats(item: pytest.Item) -> bool:
    """Whether it is the contract again: with another recipe's locks, or on another event loop."""
    return item.path.name == "test_contract_uvloop.py" or (
        isinstance(item, pytest.Function) and item.cls is not None and item.cls.__name__ in AGAIN
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Tell, before anything is installed or started, which servers there are."""
    found: dict[str, Callable[[], object]] = {
        "etcd-3.4": lambda: finding.find_etcd_34(install=False),
        "etcd-3.5": lambda: finding.find_etcd_35(install=False),
        "zookeeper-3.8": lambda: finding.find_zookeeper(install=False).classpath,
        "curator": lambda: finding.find_curator(install=False).classpath,
        "go": lambda: finding.find_go(install=False).path,
        "postgres": lambda: finding.find_postgres(install=False),
        "pgbouncer": lambda: finding.find_pgbouncer(install=False),
        "mariadb": lambda: finding.find_mysql() or finding.find_mariadb(install=False),
        "redis-7": lambda: finding.find_redis(install=False),
        "memcached": lambda: finding.find_memcached(install=False),
    }
    return [f"{name}: {_or_reason(find)}" for name, find in found.items()]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Tell of a failure as it comes: some runs take hours."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(terminal))


class AtOnce:
    """Tells of each failure as it comes, in two lines; the summary has all of it."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell which test has failed, and the beginning of why."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash is not None else report.longreprtext
            self._terminal.write_line(f"\n{report.when} of {report.nodeid}: {' '.join(why.split())[:400]}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell which versions the servers said they were, and what was measured."""
    seen = ", ".join(f"{name} said it is {version}" for name, version in config.stash.get(SEEN, {}).items())
    terminalreporter.write_line(f"servers: {seen or 'none started'}")
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def etcd34(pytestconfig: pytest.Config) -> Iterator[servers.Etcd]:
    """Yield an etcd 3.4, started once."""
    yield from _serve("etcd-3.4", servers.Etcd, pytestconfig)


@pytest.fixture(scope="session")
def etcd35(pytestconfig: pytest.Config) -> Iterator[servers.Etcd]:
    """Yield an etcd 3.5, started once."""
    yield from _serve("etcd-3.5", servers.Etcd, pytestconfig)


@pytest.fixture(scope="session")
def etcd_grpc(pytestconfig: pytest.Config) -> Iterator[servers.Etcd]:
    """Yield an etcd that is asked by gRPC, started once."""
    yield from _serve("etcd-grpc", servers.Etcd, pytestconfig)


@pytest.fixture(scope="session")
def zookeeper(pytestconfig: pytest.Config) -> Iterator[servers.ZooKeeper]:
    """Yield a ZooKeeper 3.8, started once."""
    yield from _serve("zookeeper-3.8", servers.ZooKeeper, pytestconfig)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[servers.Postgres]:
    """Yield a PostgreSQL, started once."""
    with _running("postgres", servers.postgres, pytestconfig) as one:
        yield one


@pytest.fixture(scope="session")
def postgres_server(postgres: servers.Postgres) -> servers.Postgres:
    """Return the same PostgreSQL, as the store that it is."""
    return postgres


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> Iterator[servers.MariaDb]:
    """Yield a MariaDB, started once."""
    with _running("mariadb", servers.mariadb, pytestconfig) as one:
        yield one


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config) -> Iterator[servers.Redis]:
    """Yield a Redis, started once."""
    yield from _serve("redis-7", servers.Redis, pytestconfig)


FIXTURES = {
    "etcd-3.4": "etcd34",
    "etcd-3.5": "etcd35",
    "etcd-grpc": "etcd_grpc",
    "zookeeper-3.8": "zookeeper",
    "redis-7": "redis_server",
    "postgres-15": "postgres_server",
    "mariadb-10.11": "mariadb",
}


@pytest.fixture(params=list(FIXTURES))
def server(request: pytest.FixtureRequest) -> servers.Server:
    """Return each of the servers in turn, running, whatever the test before did to it."""
    one: servers.Server = request.getfixturevalue(FIXTURES[request.param])
    one.resume()
    one.start()
    if isinstance(one, servers.Redis) and "store" not in request.fixturenames:  # its clients have no grace
        one.wait_granting()
    if isinstance(one, servers.Database):
        make_tables(one)
    return one


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return what notes a measured figure."""
    notes = request.config.stash.setdefault(FIGURES, [])
    name = request.node.name
    return lambda text: notes.append(f"{name} {text}")


@pytest.fixture
def proxy(server: servers.Server) -> Iterator[Proxy]:
    """Yield a proxy before ``server``, with nothing wrong yet."""
    with Proxy.of(server) as one:
        yield one


@pytest.fixture
def prefix() -> str:
    """Return a prefix for URLs that no other test has used."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def url(server: servers.Server, prefix: str) -> str:
    """Return a URL on ``server`` that no other test has used, and that grants at once what is free."""
    if isinstance(server, servers.Redis):
        server.wait_granting()
    return server.url(prefix)


@pytest.fixture
def store(server: servers.Server, prefix: str) -> Iterator[ServerStore]:
    """Yield a prefix on ``server`` as the contract suite sees it."""
    one = store_on(server, prefix)
    yield one
    one.close()


@pytest.fixture
def nothing_left(server: servers.Server, prefix: str) -> Iterator[None]:
    """See, when the test is over, that its clients left no contender under ``prefix`` (L5)."""
    yield
    left = servers.settle(server, prefix)
    servers.clean(server, prefix)
    assert not left, f"left behind: {left.contenders}"


def _serve(name: str, cls: type[S], config: pytest.Config) -> Iterator[S]:
    one = _running(name, servers.ALL[name].started, config)
    assert isinstance(one, cls)
    with one:
        yield one


def _running(name: str, make: Callable[[], S], config: pytest.Config) -> S:
    """Return a server, started; a failure in CI if it cannot be had, elsewhere a skip."""
    one = needed(name, lambda: make().start())
    config.stash.setdefault(SEEN, {})[name] = one.version()
    return one


def _or_reason(find: Callable[[], object]) -> object:
    try:
        return find()
    except servers.ServerUnavailable as reason:
        return f"{reason}; {'installed when needed' if finding.may_install() else 'and may not be installed'}"
