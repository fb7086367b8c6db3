"""A signal handler that calls any public method amid any other: it works or is refused, and nothing hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from integration.servers import eventually
from recipes._section import section
from tests.heap import INTERRUPTED
from tests.run.handlers import CALLS, Party, Storm
from tests.run.striking import EVERYWHERE

STRIDE = 4
SOON_S = 10

pytestmark = INTERRUPTED


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
@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=EVERYWHERE)])
def test_a_handler_may_make_any_call_amid_any_other(
    party: Party, stride: int, outer: Callable[[Party], None]
) -> None:
    storm = Storm(party, stride)
    storm.over(iter([outer]))
    assert storm.struck > 1


def test_amid_a_section_release_and_close_leave_the_connection_to_other_threads(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the connection does may wait for what the handler has interrupted."""
    party.hold()
    client, mine, touched = party.client, threading.get_ident(), []
    connection = client._runtime.state.session.connection  # type: ignore[union-attr]

    def touching(name: str, does: Any) -> Any:
        def touch(*args: Any) -> Any:
            if threading.get_ident() == mine:
                touched.append(name)
            return does(*args)

        return touch

    for name in ("ask", "forget", "close"):
        monkeypatch.setattr(connection, name, touching(name, getattr(connection, name)))
    with section.mark:
        assert party.held.release()
        assert party.read.release(wait=False)
        with pytest.raises(recipes.ReentrantCall):
            party.written.verify()
        client.close()
    assert touched == []
    assert not party.written.held
    assert eventually(lambda: client.pending_cleanups == 0, SOON_S)
