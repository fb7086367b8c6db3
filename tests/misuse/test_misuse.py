"""Misuse of the interface in any order: on the test kit, whose clock also ends sessions, and in a file.

``nox -s tests -- tests/misuse --hypothesis-profile=long`` tries many more.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import recipes
from recipes import testing
from tests.contract.apis import Api, AsyncApi, BlockingApi
from tests.misuse.machine import CLIENTS, Misuse, which
from tests.simulation import bugs


class InMemory(Misuse):
    """On the test kit: time is moved by hand, sessions end, answers are lost."""

    def __init__(self) -> None:
        self.store = testing.Store()
        super().__init__()

    def connect(self) -> Any:
        return self.api.connect(self.store.url)

    def patiently(self, call: Callable[[], Any]) -> Any:
        with self.store.clock.jumping():
            return call()

    def left(self, name: str) -> list[Any]:
        return [*self.store.holders(name), *self.store.waiters(name)]

    def over(self) -> None:
        self.store.close()

    @rule(seconds=st.sampled_from((0, 1, 5, 20)))
    def time_passes(self, seconds: float) -> None:
        self.store.clock.advance(seconds)

    @rule(client=st.integers(0, CLIENTS - 1))
    def a_session_ends(self, client: int) -> None:
        if self.closed[client] or self.clients[client].session.id is None:
            return
        self.store.expire(self.clients[client])
        self.doom(lambda one: one.client == client)

    @rule(number=which)
    def an_operator_removes(self, number: int) -> None:
        if not self.taken:
            return
        taken = self.some(number)
        self.store.remove(taken.grant)
        self.doom(lambda one: one.name == taken.name and one.grant.token == taken.grant.token)

    @rule(
        client=st.integers(0, CLIENTS - 1),
        operation=st.sampled_from(("acquire", "try_acquire", "release", "wait", "verify")),
        lost=st.sampled_from(("drop_reply", "drop_request")),
    )
    def an_answer_is_lost(self, client: int, operation: Any, lost: str) -> None:
        if not self.closed[client]:
            getattr(self.store, lost)(self.clients[client], operation)


class InAFile(Misuse):
    """On SQLite, in real time."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.url = f"sqlite://{self.folder}/locks"
        super().__init__()

    def connect(self) -> Any:
        return self.api.connect(self.url)

    def left(self, name: str) -> list[Any]:
        with recipes.connect(self.url) as looker:
            return looker.lock(name).contenders()

    def over(self) -> None:
        shutil.rmtree(self.folder)


@pytest.mark.parametrize("api", [BlockingApi, AsyncApi], ids=lambda api: api.name)
@pytest.mark.parametrize("machine", [InMemory, InAFile])
def test_no_misuse_breaks_a_promise(machine: type[Misuse], api: type[Api]) -> None:
    long = settings().max_examples > 100
    misuse(machine, api, settings().max_examples if long else 8 if machine is InAFile else 20)


def misuse(machine: type[Misuse], api: type[Api], examples: int) -> None:
    """Run so many examples of up to 30 calls; the first that fails is shown as it is."""
    of_this_api = type(f"{machine.__name__}{api.__name__}", (machine,), {"api_type": api})
    run_state_machine_as_test(
        of_this_api,
        settings=settings(max_examples=examples, stateful_step_count=30, phases=[Phase.generate]),
    )


def test_misuse_finds_a_planted_bug() -> None:
    with ExitStack() as stack:
        for patch in bugs.released_still_holds():
            stack.enter_context(patch)
        with pytest.raises(AssertionError):
            misuse(InMemory, BlockingApi, 60)
