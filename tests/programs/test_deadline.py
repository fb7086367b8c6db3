from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.deadline import LONGEST_S, NEVER, Deadline, Expired, duration


def test_none_is_never() -> None:
    assert Deadline.after(None, 5.0) == NEVER
    assert NEVER.bound(None, 1e12) is None
    assert NEVER.bound(3.0, 1e12) == 3.0


@pytest.mark.parametrize(
    ("seconds", "now", "left"), [(None, 10.0, 5.0), (2.0, 10.0, 2.0), (9.0, 10.0, 5.0), (5.0, 10.0, 5.0)]
)
def test_bound_is_the_smaller_of_the_two(seconds: Any, now: float, left: Any) -> None:
    assert Deadline.after(5.0, 10.0).bound(seconds, now) == left


@pytest.mark.parametrize("now", [15.0, 15.1, 1e9])
def test_nothing_left_is_expired_from_the_very_moment(now: float) -> None:
    with pytest.raises(Expired):
        Deadline.after(5.0, 10.0).bound(1.0, now)


@pytest.mark.parametrize("good", [0, 0.0, -0.0, 1, 2.5, LONGEST_S, None])
def test_durations_that_pass(good: Any) -> None:
    assert duration("timeout", good) == good


@pytest.mark.parametrize("bad", [True, False, "1", b"1", 1j, [], object()])
def test_what_is_no_number_is_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError, match="timeout is a number of seconds, not"):
        duration("timeout", bad)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (-1, "0 or more"),
        (-1e-9, "0 or more"),
        (float("nan"), "0 or more"),
        (float("inf"), "None is for ever"),
        (float("-inf"), "0 or more"),
        (10**400, "None is for ever"),
        (-(10**400), "0 or more"),
        (LONGEST_S * 1.01, "None is for ever"),
    ],
)
def test_what_does_not_fit_is_a_value_error(bad: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        duration("timeout", bad)


def test_least() -> None:
    assert duration("session_timeout", 2, least=2.0) == 2.0
    with pytest.raises(ValueError, match=r"session_timeout=1\.9 is too short: at least 2 s"):
        duration("session_timeout", 1.9, least=2.0)


@given(st.one_of(st.floats(), st.integers()), st.floats(0, 1e6))
def test_any_number_passes_as_it_is_or_is_a_value_error(seconds: Any, least: Any) -> None:
    try:
        passed = duration("timeout", seconds, least=least)
    except ValueError:
        assert not least <= seconds <= LONGEST_S
    else:
        assert passed == seconds
        assert least <= seconds <= LONGEST_S
