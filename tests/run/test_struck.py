"""An interrupt wherever Python hears of one, at each place once: nothing is left behind.

Signals are heard between any two instructions, so a storm of them finds a gap of a few microseconds once in
a thousand runs; this finds it each time.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import recipes
from integration.servers import eventually

SOON_S = 20
PACKAGE = str(Path(recipes.__file__).parent)


class Strike:
    """Raises KeyboardInterrupt in this thread, the n-th time that Python would hear of a signal.

    It does so where a function of Python begins, and where one of C has returned, whose result is lost then.
    """

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def __enter__(self) -> Self:
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return  # the gaps of other packages are theirs
        if event == "call" and frame.f_back is not None and frame.f_back.f_code.co_filename == __file__:
            return  # as if it had struck before the call
        self.left -= 1
        if not self.left:
            sys.setprofile(None)
            self.where = f"{event} in {frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt


# A generator that is dropped hears a signal too, and nobody hears of that.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(params=["memory", "sqlite"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[recipes.Client]:
    """Yield an open client, with whose session nothing can go wrong."""
    url = "memory://" if request.param == "memory" else f"sqlite://{tmp_path}/locks"
    with recipes.connect(url, session_timeout=60) as one:
        yield one


def struck(call: Callable[[], object], at: int) -> str:
    """Return where ``call`` was interrupted; "" if it was not."""
    strike = Strike(at)
    try:
        with strike:
            call()
    except KeyboardInterrupt:
        return strike.where
    return ""


def test_a_release_interrupted_anywhere_is_done_all_the_same(client: recipes.Client) -> None:
    lock = client.lock("x")
    for at in itertools.count(1):
        grant = lock.acquire(timeout=SOON_S)
        where = struck(grant.release, at)
        assert client.grants == [], where
        assert not grant.held, where
        if not where:
            break
    assert at > 20
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_an_acquire_interrupted_anywhere_leaves_nothing(client: recipes.Client) -> None:
    lock = client.lock("x")
    for at in itertools.count(1):
        where = struck(lambda: lock.acquire(timeout=SOON_S), at)
        if not where:
            break
        assert client.grants == [], where
        assert lock.acquire(timeout=SOON_S).release(), where
    assert at > 50
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)


def test_an_acquire_and_release_by_with_interrupted_anywhere(client: recipes.Client) -> None:
    lock = client.lock("x")

    def enter_and_leave() -> None:
        with lock:
            pass

    for at in itertools.count(1):
        where = struck(enter_and_leave, at)
        if not where:
            break
        assert client.grants == [], where
        assert lock.acquire(timeout=SOON_S).release(), where
    assert at > 50


def test_an_acquire_again_interrupted_anywhere_leaves_only_what_was_there(client: recipes.Client) -> None:
    lock = client.rlock("x")

    def again() -> None:
        lock.acquire(timeout=SOON_S).release()

    for at in itertools.count(1):
        outer = lock.acquire(timeout=SOON_S)
        where = struck(again, at)
        assert outer.held, where
        left = [grant for grant in client.grants if grant is not outer]
        assert outer.release(), where
        assert not left, where
        assert client.lock("x").try_acquire().release(), where  # type: ignore[union-attr]
        if not where:
            break
    assert at > 20
