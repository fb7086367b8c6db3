"""What the tests of stores share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.strangers import Stranger


class _Limbo(dict[threading.Thread, threading.Thread]):
    """The threads that are about to begin; one that begins only after it was forgotten does no harm."""

    def __delitem__(self, thread: threading.Thread) -> None:
        self.pop(thread, None)


@pytest.fixture
def closed_port() -> Iterator[Callable[[], int]]:
    """Return ports on which nobody listens, another each time; they are kept, or somebody else might."""
    with ExitStack() as kept:

        def keep() -> int:
            sock = kept.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            port: int = sock.getsockname()[1]
            return port

        yield keep


@pytest.fixture
def take() -> Iterator[Callable[[int], Stranger]]:
    """Yield what has a stranger take the number of a descriptor; see that it was left alone in the end."""
    made: list[Stranger] = []

    def one(number: int) -> Stranger:
        assert number >= 0
        made.append(Stranger(number))
        return made[-1]

    yield one
    said = [stranger.hurt() for stranger in made]
    for stranger in made:
        stranger.close()
    assert said == [""] * len(made)


@pytest.fixture
def nothing_in_limbo() -> Iterator[None]:
    """Forget threads that were interrupted as they started and never ran: threading lists them for ever.

    Whether a thread never runs cannot be known: one that is merely slow begins later, and looks for itself.
    So the forgiving list stays.
    """
    if not isinstance(threading._limbo, _Limbo):  # type: ignore[attr-defined]
        with threading._active_limbo_lock:  # type: ignore[attr-defined]
            threading._limbo = _Limbo(threading._limbo)  # type: ignore[attr-defined]
    yield
    threading._limbo.clear()  # type: ignore[attr-defined]
