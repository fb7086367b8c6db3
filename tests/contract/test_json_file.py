"""The contract on the store of the page "How to add a store": a JSON file."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

from recipes._contract.names import encode
from recipes.stores import registry
from recipes.stores._kit.session import Busy
from tests.contract.calling_back import CallingBack
from tests.contract.exclusion import Exclusion
from tests.contract.foreign import Foreign
from tests.contract.handing import HandingOn
from tests.contract.hanging import Hanging
from tests.contract.inspecting import Inspecting
from tests.contract.interrupts import Interrupts
from tests.contract.manners import Manners
from tests.contract.naming import Naming
from tests.contract.reading import Reading
from tests.contract.reentry import Reentry
from tests.contract.sessions import Sessions
from tests.contract.stores import Store
from tests.contract.telling import Telling
from tests.contract.values import Counters, Guarded, Latches, Values, WatchedValues
from tests.contract.waiting import Waiting
from tests.stores.json_file import kept

T = TypeVar("T")


class JsonStore(Store):
    """A file of its own."""

    has_foreign: ClassVar[bool] = False  # nobody else's layout is there
    lands_late: ClassVar[bool] = False  # commands of one connection are carried out in order, or not at all

    prelude: ClassVar[str] = """
from recipes.stores import registry
registry.SCHEMES["json"] = "tests.stores.json_file:backend"
"""

    def __init__(self, folder: Path) -> None:
        self.mark = f"t-{uuid.uuid4().hex}"
        self._path = folder / self.mark

    def url(self) -> str:
        return f"json://{self._path}"

    def _with(self, act: Callable[[dict[str, Any]], T]) -> T:
        while True:
            with contextlib.suppress(Busy), kept(str(self._path)) as state:
                return act(state)
            time.sleep(0.001)

    def contenders(self, name: str) -> list[str]:
        return [ref for ref in self.everything() if ref.startswith(f"{encode(name)}/")]

    def everything(self) -> list[str]:
        return self._with(
            lambda state: [
                f"{queue}/{row['token']}" for queue, rows in state["queues"].items() for row in rows
            ]
        )

    def sessions(self) -> set[str]:
        return self._with(lambda state: set(state["sessions"]))

    def receipts(self) -> list[str]:
        return self._with(
            lambda state: [f"{key} of {one}" for one, keys in state["receipts"].items() for key in keys]
        )

    def remove(self, contender: str) -> None:
        queue, _, token = contender.rpartition("/")

        def act(state: dict[str, Any]) -> None:
            rows = state["queues"].get(queue, [])
            rows[:] = [row for row in rows if row["token"] != int(token)]

        self._with(act)

    def plant(self, name: str, kind: str) -> str:
        def act(state: dict[str, Any]) -> str:
            state["token"] += 1
            row = {
                "token": state["token"],
                "id": str(uuid.uuid4()),
                "kind": "W" if kind == "orphan" else kind,
            }
            row |= {"session": "another", "mark": "", "owner": "", "data": "", "version": 0}
            state["queues"].setdefault(encode(name), []).append(row)
            return f"{encode(name)}/{state['token']}"

        return self._with(act)

    def end_session(self, client: Any) -> None:
        session = client.session.id

        def act(state: dict[str, Any]) -> None:
            state["sessions"].pop(session, None)
            state["receipts"].pop(session, None)
            for rows in state["queues"].values():
                rows[:] = [row for row in rows if row["session"] != session]

        self._with(act)

    def close(self) -> None:
        """The folder is pytest's."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setitem(registry.SCHEMES, "json", "tests.stores.json_file:backend")
    return JsonStore(tmp_path)


class TestCallingBack(CallingBack):
    pass


class TestExclusion(Exclusion):
    pass


class TestHandingOn(HandingOn):
    pass


class TestHanging(Hanging):
    pass


class TestInspecting(Inspecting):
    pass


class TestInterrupts(Interrupts):
    pass


class TestManners(Manners):
    pass


class TestNaming(Naming):
    pass


class TestReading(Reading):
    pass


class TestReentry(Reentry):
    pass


class TestSessions(Sessions):
    pass


class TestForeign(Foreign):
    pass


class TestTelling(Telling):
    pass


class TestWaiting(Waiting):
    pass


class TestValues(Values):
    pass


class TestWatchedValues(WatchedValues):
    pass


class TestCounters(Counters):
    pass


class TestLatches(Latches):
    pass


class TestGuarded(Guarded):
    pass
