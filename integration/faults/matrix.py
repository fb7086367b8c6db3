"""On which stores each row of the fault matrix is run, read from the tests that pytest collects.

::

    python -m integration.faults.matrix         # collect, and write the table of integration/README.md anew
    python -m integration.faults.matrix --show  # collect, and print it

A test belongs to a row if the table "Faults, row by row" names it, or if it is named for the row's fault
(``test_fault_07_08_...``). Its store is read from its parameters, its folder, or `SAID`. Nothing is run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

__all__ = [
    "BELOW_INTEGRATION",
    "STORES",
    "Collected",
    "cannot",
    "collect",
    "matrix",
    "render",
    "rows_named",
    "written",
]

ROOT = Path(__file__).parents[2]
README = ROOT / "integration/README.md"
BELOW_INTEGRATION = ("breaking/", "faults/", "clusters/", "credentials/", "redis_faults/", "sql_faults/")
BEGIN = "<!-- by python -m integration.faults.matrix -->\n"
END = "<!-- end -->\n"
LINE = re.compile(r"^\| ([L0-9, ]+) \| .* \| (.*) \|$", re.MULTILINE)
NAME = re.compile(r"`([\w/.]+::[\w*]+)`")
OF_FAULT = re.compile(r"test_fault_((?:\d+_)+)")

STORES: Mapping[str, re.Pattern[str]] = {
    "etcd": re.compile(r"etcd(?![-_]?grpc)|forgetful(?!_grpc)"),
    "etcd by gRPC": re.compile(r"etcd[-_]?grpc|forgetful_grpc"),
    "ZooKeeper": re.compile(r"zookeeper|embedded|sasl|_acl_"),
    "Redis": re.compile(r"redis(?!_py)"),
    "Redlock": re.compile(r"redlock|majority"),
    "PostgreSQL": re.compile(r"postgres|\bsql(?:-polling)?-"),
    "MariaDB": re.compile(r"mariadb"),
    "ShedLock's table": re.compile(r"shedlock"),
    "Memcached": re.compile(r"memcached|\bcell\b"),
    "SQLite": re.compile(r"sqlite|on_a_file"),
    "in memory": re.compile(r"memory|tests/run/"),
}
"""How the store shows in what pytest calls a test."""
SAID = {
    "integration/clusters/test_session_margin.py": "ZooKeeper",
    "integration/redlock/": "Redlock",
    "integration/memcached/": "Memcached",
    "integration/shedlock/": "ShedLock's table",
    "test_fault_9_a_release_goes_ahead_of_a_burst_of_acquires": "etcd",
    "test_fault_33_a_password_that_c": "etcd",
    "test_fault_33_forbidden_while_holding": "etcd",
    "test_fault_33_one_login_for_many_calls": "etcd",
    "test_fault_33_users_that_come_later": "etcd",
}
"""The store of tests whose own words do not name it, by a part of what pytest calls them."""
_LOCAL = ("SQLite", "in memory")
_SQL = ("PostgreSQL", "MariaDB", "ShedLock's table")
_QUORUM = ("etcd", "etcd by gRPC", "ZooKeeper", "Redlock")
CANNOT: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "there is no server, and no way to it": ((*range(4, 15), 33, 34, 39, 40, 41, 48), _LOCAL),
    "it is in one process, and ends with it": ((1, 2, 3, 37, 47), ("in memory",)),
    "it has no descriptors": ((43,), ("in memory",)),
    "no quorum decides": ((11, 39), tuple(one for one in STORES if one not in _QUORUM)),
    "etcd alone compacts its history": ((16,), tuple(one for one in STORES if not one.startswith("etcd"))),
    "ZooKeeper alone numbers by a counter": ((20,), tuple(one for one in STORES if one != "ZooKeeper")),
    "its wall clock decides nothing": ((48,), ("etcd", "etcd by gRPC", "ZooKeeper")),
    "it is no database": ((51, 52, 53, 54), tuple(one for one in STORES if one not in _SQL)),
}
"""What cannot happen, and why: to which rows that applies, and on which stores."""
WHERE = (
    "integration",
    "tests/contract",
    "tests/run",
    "tests/stores/sqlite",
    "tests/simulation",
)

Collected = Mapping[str, bool]
"""Whether a test is left to `nox -s faults`, by what pytest calls it."""


class _Listing:
    """Prints what is collected, a line each."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            print(f"@ {int(item.get_closest_marker('long') is not None)} {item.nodeid}")


def collect() -> Collected:
    """Have another process collect all tests that may be of a row."""
    command = [sys.executable, "-m", "integration.faults.matrix", "--list"]
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTEST_"))
    }
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=inherited)
    lines = [line.split(" ", 2) for line in done.stdout.splitlines() if line.startswith("@ ")]
    assert lines, done.stdout[-2000:] + done.stderr[-2000:]
    return {nodeid: long == "1" for _, long, nodeid in lines}


def rows_named() -> list[tuple[str, list[str]]]:
    """Return each line of the table of rows: its first column, and the tests that it names."""
    section = README.read_text().partition("## Faults, row by row")[2].partition("### On which stores")[0]
    return [(numbers, NAME.findall(tests)) for numbers, tests in LINE.findall(section)]


def _by_number() -> dict[str, list[str]]:
    """Return the tests of each row, as paths from the top and patterns."""
    rows: dict[str, list[str]] = {}
    for numbers, tests in rows_named():
        for number in re.findall(r"(?<!L)\b\d+", numbers):
            rows.setdefault(number, []).extend(map(_from_the_top, tests))
    return rows


def _from_the_top(name: str) -> str:
    return f"integration/{name}" if name.startswith(BELOW_INTEGRATION) else name


def matrix(collected: Collected) -> dict[str, dict[str, bool]]:
    """Return for each row, and each store on which it is run, whether only `nox -s faults` runs it there."""
    rows: dict[str, dict[str, bool]] = {}
    for row, names in _by_number().items():
        stores = rows[row] = {}
        for nodeid, long in collected.items():
            if _is_of(nodeid, row, names):
                for store in _stores(nodeid):
                    stores[store] = stores.get(store, True) and long
    return rows


def _is_of(nodeid: str, row: str, names: Iterable[str]) -> bool:
    """Whether a test is of a row; the classes of the contract are collected where it is run on a store."""
    found = OF_FAULT.search(nodeid)
    if found is not None and row in {str(int(number)) for number in found[1].strip("_").split("_")}:
        return True
    path, _, rest = nodeid.partition("::")
    parts = rest.partition("[")[0].split("::")
    for name in names:
        wanted_path, _, wanted = name.partition("::")
        if wanted_path.startswith("tests/contract/") and f"Test{wanted}" in parts:
            return True
        if path == wanted_path and any(fnmatchcase(part, wanted) for part in parts):
            return True
    return False


def _stores(nodeid: str) -> list[str]:
    said = [store for words, store in SAID.items() if words in nodeid]
    return said or [store for store, shows in STORES.items() if shows.search(nodeid)]


def cannot() -> dict[tuple[str, str], str]:
    """Return for a row and a store why the fault cannot happen there."""
    return {
        (str(row), store): why for why, (rows, stores) in CANNOT.items() for store in stores for row in rows
    }


def render(rows: Mapping[str, Mapping[str, bool]]) -> str:
    """Return the table: "x" runs by default, "f" in `nox -s faults` only, "-" cannot happen."""
    never = cannot()
    lines = ["| row | " + " | ".join(STORES) + " |", "|---" * (len(STORES) + 1) + "|"]
    for row, stores in sorted(rows.items(), key=lambda item: int(item[0])):
        cells = (
            ("-" if (row, store) in never else "") if store not in stores else "f" if stores[store] else "x"
            for store in STORES
        )
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the table as the README has it."""
    return README.read_text().partition(BEGIN)[2].partition(END)[0].strip() + "\n"


def main(argv: list[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m integration.faults.matrix", description=__doc__)
    parser.add_argument("--show", action="store_true", help="print the table, and leave the README as it is")
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.list:
        return pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *WHERE], plugins=[_Listing()])
    table = render(matrix(collect()))
    if options.show:
        print(table, end="")
        return 0
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
