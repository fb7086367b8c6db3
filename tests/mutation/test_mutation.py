from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.choosing import modules, questions
from tests.mutation.equivalent import Change, judged, missing

ROOT = Path(__file__).parents[2]
SOURCE = '''"""What it is for."""

def most(numbers: list[int], *, at_least: int = 0) -> int:
    """Return the largest."""
    assert numbers is not None
    if not numbers:
        raise ValueError("there is no number in this list")
    found = at_least
    for one, _ in zip(numbers, numbers, strict=True):
        found = max(found, one)
    return found
'''
JUDGING = """
import sys
from pathlib import Path
from tests.mutation import judging
from tests.mutation.choosing import Questions

judging.TEST_S = 0.5
copy = judging.Copy(Path(sys.argv[1]))
source = (copy.at / "recipes/most.py").read_text()
asked = Questions((("tests/test_most.py",),), (), "")
changes = (("max(", "min("), ("= at_least", "= at_least or 0"), ("found = max", "while True: "), ("max", ")"))
for was, now in changes:
    print(copy.judge("recipes/most.py", source.replace(was, now), asked).by)
print((copy.at / "recipes/most.py").read_text() == source)
copy.close()
"""
TESTS = """from recipes.most import most

def test_the_most() -> None:
    assert most([1, 3, 2]) == 3
"""


def test_what_was_judged_equivalent_is_still_in_the_code_and_says_why() -> None:
    assert missing(judged(), ROOT) == []


def test_a_judgement_that_is_out_of_date_or_gives_no_reason_is_reported(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(SOURCE)
    there = Change("one.py", "most", "found = at_least", "found = None")
    elsewhere = Change("one.py", "least", "found = at_least", "found = None")
    gone = Change("two.py", "most", "found = at_least", "found = None")
    assert missing({there: "it is assigned again"}, tmp_path) == []
    assert [one.partition(":")[0] for one in missing({there: " "}, tmp_path)] == ["no reason is given"]
    for one in (elsewhere, gone, Change("one.py", "most", "found = 1", "found = None")):
        (wrong,) = missing({one: "a reason"}, tmp_path)
        assert wrong.startswith("these lines are no longer there")


def test_every_module_is_asked_about() -> None:
    found = modules(ROOT)
    assert {"recipes/_rules/permits.py", "recipes/stores/etcd/wire.py", "recipes/stores/receipts.py"} <= {
        *found
    }
    for path in found:
        asked = questions(path, ROOT)
        assert asked.tests, path
        assert all(
            (ROOT / one).exists() for tests in asked.tests for one in tests if one.startswith("tests/")
        )
    assert modules(ROOT, "permits") == ["recipes/_programs/permits.py", "recipes/_rules/permits.py"]


def test_the_tests_of_a_module_are_asked_first() -> None:
    asked = questions("recipes/_rules/permits.py", ROOT)
    assert asked.tests[0][:2] == ("tests/rules/test_permits.py", "tests/programs/test_permits.py")
    assert "tests/rules/test_rules.py" in asked.tests[1]
    assert asked.tests[2] == ("tests/contract/test_memory.py", "-k", "Permits")
    assert (asked.stores, asked.of) == (("etcd", "zookeeper"), "permits")
    assert questions("recipes/stores/etcd/codec.py", ROOT).tests[0][0] == "tests/stores/test_etcd_codec.py"
    quick = questions("recipes/_rules/permits.py", ROOT, quick=True)
    assert (quick.tests, quick.stores) == (asked.tests[:1], ())


def test_changes_are_of_what_runs_and_never_of_what_people_read() -> None:
    pytest.importorskip("mutmut", reason="only in `nox -s mutation`")
    from tests.mutation.making import changed, places

    made = {changed(place, SOURCE)[1] for place in places("one.py", SOURCE)}
    lines = {(one.was, one.now) for one in made}
    assert {one.within for one in made} == {"most"}
    assert ("if not numbers:", "if numbers:") in lines
    assert ("return found", "pass") in lines
    assert ("found = max(found, one)", "found = max(found, None)") in lines
    assert ('raise ValueError("there is no number in this list")', "pass") in lines
    assert (
        "for one, _ in zip(numbers, numbers, strict=True):",
        "for one, _ in zip(numbers, strict=True):",
    ) in lines
    assert all(("strict=True" in was) == ("strict=True" in now) for was, now in lines if "for" in was)
    assert all("assert" not in was and '"""' not in was for was, _ in lines)
    assert not [now for _, now in lines if "ValueError(" in now]
    assert len({changed(place, SOURCE)[0] for place in places("one.py", SOURCE)}) == len(lines)


def test_a_change_is_noticed_by_a_test_or_by_its_time_or_survives(tmp_path: Path) -> None:
    """In a process of its own: it forks, and threads of this one may hold locks."""
    for path, text in (
        ("recipes/most.py", SOURCE),
        ("recipes/__init__.py", ""),
        ("tests/test_most.py", TESTS),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "-c", JUDGING, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "tests/test_most.py::test_the_most",
        "",
        "tests/test_most.py::test_the_most",
        "tests/test_most.py (is not imported)",
        "True",
    ], done.stderr
