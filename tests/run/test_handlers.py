"""A signal handler that calls any public method amid any other: it works or is refused, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import recipes
from tests.run.handlers import CALLS, Party, Storm

STRIDE = 4

# A generator that is dropped hears a signal too, and nobody hears of that.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(params=["memory", "sqlite"])
def party(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Party]:
    """Yield a party whose sessions outlast the test."""
    url = f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite://{tmp_path}/locks"

    def connect() -> recipes.Client:
        return recipes.connect(url, session_timeout=60)

    with connect() as other:
        found = Party(connect, other)
        yield found
        found.client.close()


@pytest.mark.parametrize("outer", CALLS, ids=lambda call: call.__name__)
def test_a_handler_may_make_any_call_amid_any_other(party: Party, outer: Callable[[Party], None]) -> None:
    storm = Storm(party, stride=STRIDE)
    storm.over(iter([outer]))
    assert storm.struck > 1


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("outer", CALLS, ids=lambda call: call.__name__)
def test_every_call_amid_every_other_at_every_place(party: Party, outer: Callable[[Party], None]) -> None:
    Storm(party, stride=0).over(iter([outer]))
