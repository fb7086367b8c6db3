"""An interrupt between two instructions of any call of any noun leaves nothing, and the client works on.

``test_struck.py`` has more to say of locks; this has all nouns, and the places that no profile function sees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import recipes
from tests.heap import INTERRUPTED
from tests.run.interrupted import CALLS, Pair, every, interrupted_at
from tests.run.striking import EVERYWHERE, StrikeAnywhere
from tests.threads import until_ended

STRIDE = 7

pytestmark = INTERRUPTED


@pytest.fixture(params=["memory", "sqlite"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Yield a client that is interrupted, and another."""
    url = f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite://{tmp_path}/locks"
    found = Pair(lambda: recipes.connect(url, session_timeout=60))
    yield found
    found.close()
    until_ended("recipes-listener", 30)


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=EVERYWHERE)])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_interrupted_anywhere_leaves_nothing(
    pair: Pair, call: Callable[[Pair], None], stride: int
) -> None:
    assert interrupted_at(pair, call, every(stride)) > 100
    pair.see_all_free()


class Called:
    """Is called for its attributes alone."""


def begin_again() -> int:
    number = 0
    for step in (1, 2):
        number += step
    return number


def make() -> Called:
    return Called()


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="newer versions trace no instructions while they profile"
)
@pytest.mark.parametrize(("work", "places"), [(begin_again, 2), (make, 1)])
def test_a_loop_and_the_call_of_a_class_have_places_that_no_profile_function_sees(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], places: int
) -> None:
    monkeypatch.setattr(StrikeAnywhere, "within", (__file__,))
    seen = []
    for at in range(1, 20):
        strike = StrikeAnywhere(at)
        try:
            with strike:
                work()
        except KeyboardInterrupt:
            seen.append(strike.where)
        else:
            break
    between = [where for where in seen if where.split(" ", 1)[0].isdigit()]
    assert len(between) == places, seen
