from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes import StaleToken, TooWeak
from recipes._rules.fence import LARGEST, READER, WRITER, Pass, Seen, ask

tokens = st.integers(0, 9)
visits = st.lists(st.tuples(tokens, st.booleans()), max_size=30)


@given(visits)
def test_the_rule_in_other_words(history: list[tuple[int, bool]]) -> None:
    """A writer needs a token >= all that passed, a reader one >= those of the writers that passed."""
    seen = Seen()
    passed: list[tuple[int, bool]] = []
    for token, shared in history:
        relevant = [old for old, old_shared in passed if not (shared and old_shared)]
        if all(token >= old for old in relevant):
            seen = seen.admit("x", token, shared=shared)
            passed.append((token, shared))
        else:
            with pytest.raises(StaleToken) as refused:
                seen.admit("x", token, shared=shared)
            assert (refused.value.token, refused.value.seen) == (token, max(relevant))
    assert seen.newest == max((token for token, _ in passed), default=0)
    assert seen.writer == max((token for token, shared in passed if not shared), default=0)


@given(visits)
def test_a_token_that_passed_passes_again_until_somebody_later_comes(history: list[tuple[int, bool]]) -> None:
    seen = Seen()
    for token, shared in history:
        try:
            seen = seen.admit("x", token, shared=shared)
        except StaleToken:
            continue
        assert seen.admit("x", token, shared=shared) == seen


def grant(**members: Any) -> Any:
    return SimpleNamespace(**{"name": "n", "token": 5, "mode": "exclusive", "check": lambda: None, **members})


def test_what_a_grant_asks() -> None:
    assert ask("x", grant(), shared=False) == Pass("x", 5, WRITER)
    assert ask("x", grant(), shared=True) == Pass("x", 5, READER)
    assert ask("x", grant(mode="shared"), shared=True) == Pass("x", 5, READER)
    assert ask("x", LARGEST, shared=False) == Pass("x", LARGEST, WRITER)


def of_several(recipe: str) -> Any:
    return grant(_fences=False, _hold=SimpleNamespace(labels={"recipe": recipe}))


@pytest.mark.parametrize(
    ("name", "proof", "error", "says"),
    [
        ("x", of_several("semaphore"), TooWeak, "^semaphore 'n' does not give fencing; use a lock$"),
        ("x", of_several("multilock"), TooWeak, "'n' does not give fencing; use the grant of a lock in it$"),
        ("x", grant(mode="shared"), ValueError, "grant of 'n' is shared: it lets you read"),
        ("x", grant(token=None), TooWeak, "the store of lock 'n' does not give fencing; use zookeeper://"),
        ("x", grant(token=-3), ValueError, "-3 is no fencing token"),
        ("x", LARGEST + 1, ValueError, "is no fencing token"),
        ("x", True, ValueError, "True is no fencing token"),
        ("x", None, TypeError, "a gate takes a grant or its token, not NoneType"),
        ("x", 5.0, TypeError, "not float"),
        ("", 5, ValueError, "1 to 255 characters, not 0"),
        ("x" * 256, 5, ValueError, "1 to 255 characters, not 256"),
        (b"x", 5, TypeError, "a gate's name is text, not bytes"),
    ],
)
def test_what_is_refused_before_anything_is_asked(
    name: Any, proof: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        ask(name, proof, shared=False)
