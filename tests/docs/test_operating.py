"""What the pages for operators, and the comparison, name is what there is."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution, version

import pytest

from recipes.events import EVENTS
from recipes.telemetry import INSTRUMENTS
from tests.docs.pages import ROOT

OPERATING = sorted(ROOT.glob("docs/operating/*.md"))
OF_OTHERS = {
    "Connection refused",
    "certificate is not valid for",
    "database space exceeded",
    "login failed: the user or the password is wrong",
    "a role of the user has to permit reading and writing the keys from",
    "user name is empty (this etcd asks for a user: pass username= and password=)",
    "the server's certificate is not accepted: unable to get local issuer certificate",
}
"""What the servers and OpenSSL say, at least in part; the tests of faults 21, 33 and 34 have them say it."""
SPANS = {"lock.acquire", "lock.hold"}
COMMAND = re.compile(r"(?:recipes|python|nox|etcdctl|with) ")
SEEN = {
    ("kazoo", "kazoo/recipe/lock.py"): {
        64: "*re-entrant*",
        193: "except KazooException",
        200: "self.is_acquired = gotten",
        259: "wake_event.wait(timeout)",
        271: "_get_predecessor",
        342: "self.is_acquired = False",
    },
    ("tooz", "tooz/drivers/etcd3gw.py"): {100: "TODO", 165: "acquired", 172: "refresh()"},
    ("tooz", "tooz/_retry.py"): {27: "wait_exponential(max=1)"},
    ("redis", "redis/lock.py"): {
        215: "uuid1()",
        225: "monotonic()",
        235: "sleep(sleep)",
        237: "def do_acquire",
        253: "def owned",
    },
}
"""The lines of installed packages that docs/internals/peers.md points at, and what stands there."""


@pytest.mark.parametrize("page", OPERATING, ids=lambda page: str(page.name))
def test_events_and_metrics_that_are_named_exist(page: object) -> None:
    text = (ROOT / str(page)).read_text()
    named = set(re.findall(r"`((?:lock|session|store|cleanups)\.[a-z_.]+)[` ]", text)) - SPANS
    assert named - set(EVENTS) - {instrument.name for instrument in INSTRUMENTS} == set()


def test_texts_that_an_operator_may_look_for_are_emitted() -> None:
    page = (ROOT / "docs/operating/failure-modes.md").read_text()
    observed = (ROOT / "docs/internals/results.md").read_text().partition("<!-- observed")[2]
    told = {text for text in re.findall(r"`([^`]+)`", page) if " " in text and not COMMAND.match(text)}
    code = "\n".join(path.read_text() for path in ROOT.glob("recipes/**/*.py"))
    assert len(told) > 15
    assert {text for text in told - OF_OTHERS if text not in code and text not in observed} == set()


@pytest.mark.parametrize(("name", "file"), SEEN, ids=str)
def test_the_comparison_points_at_the_lines_it_means(name: str, file: str) -> None:
    page = (ROOT / "docs/internals/peers.md").read_text()
    try:
        found = version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    if f"| {found} |" not in page:
        pytest.skip(f"the page is about another version than {found}")
    lines = distribution(name).locate_file(file).read_text().splitlines()
    for number, words in SEEN[name, file].items():
        assert words in lines[number - 1], f"{file}:{number}"
        assert f"{number}`" in page or f"`{number}`" in page
