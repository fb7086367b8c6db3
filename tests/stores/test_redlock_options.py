"""What ``redlock://`` takes, and what it refuses before any I/O."""

from __future__ import annotations

from typing import Any

import pytest

import recipes
from recipes import TooWeak

URL = "redlock://h1,h2,h3/0"


@pytest.mark.parametrize(
    ("url", "options", "error", "says"),
    [
        ("redlock://", {}, ValueError, "names no server"),
        ("redlock://h1,h2/0/app", {}, ValueError, "at least 3 independent servers"),
        ("redlock://h1,h2,h1/0/app", {}, ValueError, "the same server twice"),
        ("redlock://h1,h2,h3/app", {}, ValueError, "the number of the database"),
        (URL, {"prefix": 7}, TypeError, "prefix= is text"),
        (f"{URL}/app", {"prefix": "x:"}, ValueError, "both say what keys begin with"),
        (URL, {"restart_grace": -1}, ValueError, "restart_grace"),
        (URL, {"session_timeout": 21}, ValueError, "is longer than restart_grace=20"),
        (URL, {"replicas": 1}, ValueError, "does not know the option 'replicas'"),
        (URL, {"require": "fair"}, TooWeak, "fair"),
        (URL, {"require": "shared"}, TooWeak, "shared"),
    ],
)
def test_what_does_not_fit_is_refused(url: str, options: Any, error: type[Exception], says: str) -> None:
    for connect in (recipes.connect, recipes.connect_async):
        with pytest.raises(error, match=says):
            connect(url, **options)


def test_what_needs_a_queue_is_refused_as_it_is_made() -> None:
    client = recipes.connect(f"{URL}/app", require="fencing", restart_grace=0, session_timeout=60)
    assert "tokens go back" in client.guarantees.survives
    for made in (client.rwlock, lambda name: client.semaphore(name, 2), client.election):
        with pytest.raises(TooWeak):
            made("x")


def test_errors_and_events_name_the_servers_and_no_password() -> None:
    client = recipes.connect(f"{URL}/app", username="lock", password="secret")
    assert client.guarantees.order == "none"
    assert "secret" not in repr(client)
