"""What is shown of a contender; anybody may have written what stands beside it."""

from __future__ import annotations

from typing import Any

import pytest

import recipes
from recipes import testing
from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import List, Queues
from recipes.inspection import MOST, checked_limit, described
from recipes.testing.faults import Way
from tests.run.test_tasks import in_loop

NAMES = {"a", "b", "c", "d"}
ALMOST = 0.9
"""Seconds: less than the request timeout."""


@pytest.mark.parametrize(
    ("note", "says"),
    [
        ("", {}),
        ("no json", {}),
        ("[1]", {}),
        ("[" * 100_000, {}),
        ('{"owner":1,"host":[],"pid":"2","since":"x"}', {}),
        ('{"owner":"\\u001b[2J","host":"\\ud800","since":1e300}', {}),
        (
            '{"owner":"a","host":"h","pid":2,"since":3.5,"more":1}',
            {"owner": "a", "host": "h", "pid": 2, "since": 3.5},
        ),
    ],
)
def test_what_is_not_as_it_should_be_is_left_out(note: str, says: dict[str, Any]) -> None:
    (one,) = described("x", [Contender("ref", "id", session="s", token=7, owner=note)], "s")
    assert {name: getattr(one, name) for name in ("owner", "host", "pid", "since")} == {
        "owner": None,
        "host": None,
        "pid": None,
        "since": None,
        **says,
    }
    assert (one.mine, one.ours) == (True, True)


@pytest.mark.parametrize(("note", "owner"), [("host-thread", "host-thread"), ("", None), ("\x00\x01", None)])
def test_of_others_the_text_is_shown_that_they_left(note: str, owner: str | None) -> None:
    (one,) = described("x", [Contender("ref", token=7, owner=note)], None)
    assert (one.owner, one.mine, one.ours) == (owner, False, False)


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\nb", 5])
@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
def test_an_owner_that_does_not_fit_is_refused(connect: Any, wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="owner is"):
        connect("memory://", owner=wrong)


def test_who_holds_in_which_mode_and_where() -> None:
    queue = [
        Contender("a", "1", "W", "s", DOWNGRADED, 7),
        Contender("b", "2", "R", "t", "", 8),
        Contender("c", "3", "W", "s", "", 9),
        Contender("d", "", "R", token=10),
    ]
    found = described("x", queue, "s")
    assert [(one.key, one.position, one.token, one.holds, one.mode, one.mine) for one in found] == [
        ("a", 0, 7, True, "shared", True),
        ("b", 1, 8, True, "shared", False),
        ("c", 2, 9, False, "exclusive", True),
        ("d", 3, 10, False, "shared", False),
    ]
    assert {one.lock for one in found} == {"x"}
    assert not any(one.mine for one in described("x", queue[3:], ""))


@pytest.mark.parametrize("limit", [1, 2, MOST])
def test_a_limit_that_fits(limit: int) -> None:
    assert checked_limit(limit) == limit


@pytest.mark.parametrize("limit", [0, -1, MOST + 1, True, 1.0, None])
def test_a_limit_that_does_not_fit(limit: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="limit"):
        checked_limit(limit)


class Slow(testing.Store):
    """A store that answers each look just in time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        carry_out = Way.carry_out

        def later(way: Way, request: Any) -> Any:
            if isinstance(request.op, List | Queues):
                self._time._now += ALMOST
            return carry_out(way, request)

        monkeypatch.setattr(Way, "carry_out", later)


def test_locks_are_listed_however_long_that_takes_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with Slow(monkeypatch) as store, store.connect(request_timeout=1) as client:
        for name in NAMES:
            client.lock(name).acquire()
        assert {*client.locks()} == NAMES


@in_loop
async def test_the_same_in_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Slow(monkeypatch) as store, store.connect_async(request_timeout=1) as client:
        for name in NAMES:
            await client.lock(name).acquire()
        assert {*await client.locks()} == NAMES
