"""What the pages say is so: the examples, the links, the tables, the commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import recipes
from bench import publish
from recipes import Grant
from recipes.stores import tls
from tests.cli.recording import picture
from tests.docs import proof
from tests.docs.pages import ADDING, EXAMPLES, PAGES, ROOT, blocks

DEMO = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s demo"
CHECK = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox"

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_every_example_on_a_page_is_a_file_that_runs(page: Path) -> None:
    for block in blocks(page) if page != ADDING else ():
        if block.language in ("python", "sh", "go", "java"):
            assert block.file is not None, f"this example names no file:\n{block.text}"
            assert block.text == (ROOT / block.file).read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_every_example_is_on_a_page(example: Path) -> None:
    quoted = {block.file for page in PAGES for block in blocks(page)}
    assert str(example.relative_to(ROOT)) in quoted


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        link = urlsplit(target)
        if link.scheme:  # nothing outside can be asked here, so this is all that can be said
            assert link.scheme == "https", target
            assert "." in link.netloc, target
            continue
        other = page.parent / link.path if link.path else page
        assert other.exists(), target
        assert not link.fragment or link.fragment in anchors(other), target


def anchors(page: Path) -> set[str]:
    """Return what headings can be linked to, as GitHub makes it of them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:recipes|tests|integration|docs|bench|\.ci)/[\w./-]*)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_table_of_the_grant_is_its_members() -> None:
    page = (ROOT / "docs/lock.md").read_text()
    table = page[page.index("## The grant") : page.index("## Losing it")]
    told = re.findall(r"^\| `(\w+)(?:\(\))?` \|", table, re.MULTILINE)
    public = {name for name in (*dir(Grant), *Grant.__annotations__) if not name.startswith("_")}
    assert sorted(told) == sorted(public)


def test_the_table_of_tls_options_is_what_there_is() -> None:
    page = (ROOT / "docs/operating/production.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \| [^|]* \|$", page, re.MULTILINE)) == tls.NAMES


def test_figures_of_performance_are_those_that_were_measured() -> None:
    page = (ROOT / "docs/operating/performance.md").read_text()
    figure = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w.,]*\d)")
    measured = set(figure.findall((ROOT / "docs/internals/results.md").read_text()))
    parts = ("## An acquire", "## A crowd"), ("## A crowd", "**The rate"), ("## Clients", "- **One client")
    tables = "".join(page[page.index(start) : page.index(end)] for start, end in parts)
    rows = [line.split("|")[2:-1] for line in tables.splitlines() if line.startswith("| ")]
    told = [found for row in rows for cell in row for found in figure.findall(cell)]
    counted = {"1", "2", "3", "4"}  # by the tests of requests, and of what a client has open
    assert len(told) > 35
    assert set(told) - measured - counted == set()


def test_the_figures_are_those_of_the_run_that_is_kept() -> None:
    page = publish.PAGE.read_text()
    assert publish.filled(page) == page, "run: python -m bench.publish"


def test_the_readme_has_the_two_command_lines() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert lines.count(DEMO) == 1
    assert lines.count(CHECK) == 1


def test_the_command_that_ci_takes_from_the_readme_is_the_one_for_all_checks() -> None:
    pattern = re.search(r"grep -E '([^']+)' README\.md", (ROOT / ".ci/run").read_text())
    assert pattern is not None
    command = ["grep", "-E", pattern[1], ROOT / "README.md"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [CHECK]


def test_the_readme_fits_on_a_screen_or_so() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 70


def test_the_picture_of_the_demo_is_what_the_view_draws() -> None:
    (shown,) = [block for block in blocks(ROOT / "docs/cli.md") if block.file == "tests/cli/recorded.jsonl"]
    assert shown.text.splitlines() == picture()


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == recipes.__version__


def test_the_tables_of_the_proof_are_what_was_kept() -> None:
    page = proof.PAGE.read_text()
    assert proof.filled(page) == page, "run: python -m tests.docs.proof"
