"""Partitions that could not begin leave nothing behind: neither an item, nor what is observed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import recipes
from integration.harness.process import eventually

ITEMS = ["a", "b"]


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("started", [False, True], ids=["before it runs", "as it runs"])
def test_partitions_that_could_not_begin(
    error: BaseException, started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recipes.connect(f"memory://{uuid.uuid4()}") as client:
        runtime = client._runtime
        real, left = runtime.run_behind, [1]

        def run_behind(program: Any, call: Any) -> None:
            shares = program.gi_code.co_name == "share"
            if shares and left and not started:
                left.pop()
                raise error
            real(program, call)
            if shares and left:
                left.pop()
                raise error

        monkeypatch.setattr(runtime, "run_behind", run_behind)
        with client.group("g").join(id="one") as membership:
            mine = membership.partitions(ITEMS)
            with pytest.raises(type(error)):
                next(mine)
            with pytest.raises(recipes.Closed):
                mine.next(timeout=5)
            mine.close()
            again = membership.partitions(ITEMS)
            seen = again.next(timeout=10)
            while seen is not None and len(seen) < len(ITEMS):
                seen = again.next(timeout=10)
            assert seen is not None
            assert [*seen] == ITEMS
            again.close()
            assert eventually(lambda: not runtime.hub._watched, 30)  # it is over a moment before


def test_what_is_still_being_given_back_is_in_the_way_of_the_next() -> None:
    """It said to close first what had been closed."""
    with (
        recipes.connect(f"memory://{uuid.uuid4()}") as client,
        client.group("g").join(id="one") as membership,
    ):
        mine: Any = membership.partitions(ITEMS)
        mine._begun = "by a program that hangs"
        with pytest.raises(RuntimeError, match="close its partitions first"):
            membership.partitions(ITEMS)
        mine._parts.closing = True
        with pytest.raises(recipes.StoreUnavailable, match="not all given back yet"):
            membership.partitions(ITEMS)
        mine._parts.over = True
        membership.partitions(ITEMS)


def test_an_assignment_that_an_interrupt_takes_away_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with recipes.connect(f"memory://{uuid.uuid4()}") as client:
        run = client._runtime.run
        with client.group("g").join(id="one") as membership, membership.partitions(["a"]) as mine:
            while not mine.next(timeout=10):
                pass
            mine._given = 0, type(mine._given[1])({}, {}, {})  # as if it had asked for none yet

            def struck(*given: Any) -> None:
                run(*given)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(client._runtime, "run", struck)
                with pytest.raises(KeyboardInterrupt):
                    mine.next(timeout=0)
            found = mine.next(timeout=0)
            assert found is not None
            assert [*found.new] == ["a"]
