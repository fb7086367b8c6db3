"""The table of faults in integration/README.md: all rows, and every test that it names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from integration.faults.matrix import BELOW_INTEGRATION, cannot, collect, matrix, render, rows_named, written
from integration.faults.without import PROTECTIONS

ROOT = Path(__file__).parents[1]
ROWS = set(range(1, 56))
DEFINED = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.MULTILINE)


def table() -> dict[str, list[str]]:
    """Return the tests of each row, by the first column."""
    return dict(rows_named())


def exists(name: str) -> bool:
    """Whether a test, or one that a pattern means, is there."""
    path, _, wanted = name.partition("::")
    file = (ROOT / "integration" if path.startswith(BELOW_INTEGRATION) else ROOT) / path
    return file.exists() and any(fnmatchcase(found, wanted) for found in DEFINED.findall(file.read_text()))


def test_all_rows_are_there() -> None:
    rows = {int(number) for row in table() for number in re.findall(r"(?<!L)\b\d+", row)}
    assert rows == ROWS


@pytest.mark.parametrize(("row", "name"), [(row, name) for row, names in table().items() for name in names])
def test_a_test_that_the_table_names_is_there(row: str, name: str) -> None:
    assert exists(name), f"row {row}: integration/README.md names {name}, which is not there"


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_is_taken_out_has_a_test_that_is_there(name: str) -> None:
    """`integration/faults/test_without.py` runs them, and is no part of the default run."""
    assert exists(f"faults/{PROTECTIONS[name].test.partition('[')[0]}")


def test_every_row_names_a_test() -> None:
    assert [row for row, names in table().items() if not names] == []


def test_every_test_of_a_fault_is_named() -> None:
    """Those of files (``test_sqlite.py``) apart, which run the same rows on SQLite."""
    named = [name.partition("::")[2] for names in table().values() for name in names]
    folders = [
        ROOT / "tests/run",
        ROOT / "tests/simulation",
        *(ROOT / "integration" / one for one in BELOW_INTEGRATION),
    ]
    files = [file for folder in folders for file in folder.glob("test_*.py")]
    found = {test for file in files for test in DEFINED.findall(file.read_text())}
    tests = [test for test in found if re.match(r"test_fault_\d", test)]
    assert [test for test in tests if not any(fnmatchcase(test, one) for one in named)] == []


@pytest.mark.timeout(900)  # it imports all tests
def test_the_stores_of_each_row_are_those_that_its_tests_run_on() -> None:
    """``python -m integration.faults.matrix`` writes the table anew."""
    rows = matrix(collect())
    assert written() == render(rows)
    tested = {(row, store) for row, stores in rows.items() for store in stores}
    assert tested & cannot().keys() == set(), "what is said to be impossible has a test"
