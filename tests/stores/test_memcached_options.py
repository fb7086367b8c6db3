"""What ``memcached://`` takes, and what it refuses before any I/O."""

from __future__ import annotations

from typing import Any

import pytest

import recipes
from recipes import TooWeak

URL = "memcached://h"


@pytest.mark.parametrize(
    ("url", "options", "error", "says"),
    [
        ("memcached://", {}, ValueError, "names no server"),
        ("memcached://a,b/app", {}, ValueError, "names one server"),
        (URL, {"prefix": 7}, TypeError, "prefix= is text"),
        (f"{URL}/app", {"prefix": "x:"}, ValueError, "both say what keys begin with"),
        (URL, {"prefix": "a b"}, ValueError, "without spaces"),
        (URL, {"prefix": "é"}, ValueError, "characters of ASCII"),
        (f"{URL}/{'x' * 100}", {}, ValueError, "at most 100"),
        (URL, {"restart_grace": -1}, ValueError, "restart_grace"),
        (URL, {"session_timeout": 21}, ValueError, "is longer than restart_grace=20"),
        (URL, {"session_timeout": 2_600_000, "restart_grace": 0}, ValueError, "longer than Memcached keeps"),
        (URL, {"ttl": 1}, ValueError, "does not know the option 'ttl'"),
        (URL, {"require": "fair"}, TooWeak, "fair"),
    ],
)
def test_what_does_not_fit_is_refused(url: str, options: Any, error: type[Exception], says: str) -> None:
    for connect in (recipes.connect, recipes.connect_async):
        with pytest.raises(error, match=says):
            connect(url, **options)


def test_what_needs_a_queue_is_refused_as_it_is_made() -> None:
    client = recipes.connect(f"{URL}/app", require={"fencing", "proven"}, restart_grace=0, session_timeout=60)
    for made in (client.rwlock, lambda name: client.semaphore(name, 2), client.election):
        with pytest.raises(TooWeak):
            made("x")
