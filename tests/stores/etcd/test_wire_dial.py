from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from recipes.stores.addresses import Endpoint, addresses
from recipes.stores.etcd.wire_dial import Attempt, Endpoints


def test_the_next_endpoint_serves_after_a_failure_and_many_failures_of_one_count_once() -> None:
    endpoints = Endpoints([("a", 1), ("b", 2)])
    first = endpoints.current()
    endpoints.failed(first)
    endpoints.failed(first)
    assert endpoints.current() == Endpoint("b", 2)
    endpoints.failed(endpoints.current())
    assert endpoints.current() == first


def several() -> Endpoints:
    return Endpoints([("a", 1), ("b", 2), ("c", 3)])


def test_one_of_several_servers_gets_a_share_of_the_time() -> None:
    assert several().attempt(100.0, 103.0) == Attempt(Endpoint("a", 1), 100.0, 101.0)
    assert several().attempt(100.0, 100.3).until == 100.25
    assert several().attempt(100.0, 100.1).until == 100.1
    assert Endpoints([("a", 1)]).attempt(100.0, 103.0).until == 103.0


def test_a_silent_server_is_left_and_the_next_one_gets_more_time() -> None:
    endpoints = several()
    attempt = endpoints.attempt(100.0, 103.0)
    endpoints.unanswered(attempt, attempt.until)
    assert endpoints.attempt(101.0, 104.0) == Attempt(Endpoint("b", 2), 101.0, 103.0)


def test_a_server_that_fails_at_once_is_left_and_costs_no_time() -> None:
    endpoints = several()
    endpoints.unanswered(endpoints.attempt(100.0, 103.0), 100.0)
    assert endpoints.attempt(100.0, 103.0) == Attempt(Endpoint("b", 2), 100.0, 101.0)


def test_a_call_that_had_no_time_blames_nobody() -> None:
    endpoints = several()
    endpoints.unanswered(endpoints.attempt(100.0, 100.2), 100.2)
    assert endpoints.current() == Endpoint("a", 1)


def ask(endpoints: Endpoints, began: float, until: float, *, answers: bool = False) -> Endpoint:
    """Ask the current server in a short time; return which is current then."""
    attempt = endpoints.attempt(began, until)
    assert attempt.until == until
    (endpoints.answered if answers else endpoints.unanswered)(attempt, until)
    return endpoints.current()


def test_short_calls_one_after_another_leave_a_silent_server() -> None:
    """Where the request timeout is short there are no others: nothing was granted, and others served."""
    endpoints = several()
    assert ask(endpoints, 100.0, 100.2) == Endpoint("a", 1)
    assert ask(endpoints, 105.0, 105.2) == Endpoint("b", 2)
    assert ask(endpoints, 106.0, 106.2) == Endpoint("b", 2), "the next one has its time, too"
    assert ask(endpoints, 106.2, 106.25, answers=True) == Endpoint("b", 2)
    assert ask(endpoints, 107.0, 107.2) == Endpoint("b", 2), "an answer ends its silence"
    assert ask(endpoints, 108.0, 108.2) == Endpoint("c", 3)


def test_short_calls_at_one_time_are_no_more_than_one() -> None:
    endpoints = several()
    for until in (100.1, 100.1, 100.2, 100.2, 100.2):
        assert ask(endpoints, 100.0, until) == Endpoint("a", 1)
    for at in (101.0, 102.0, 103.0):
        assert ask(endpoints, at, at) == Endpoint("a", 1), "they had no time"


def test_what_another_server_does_says_nothing_of_the_current_one() -> None:
    endpoints = several()
    late = endpoints.attempt(99.9, 100.1)
    endpoints.failed(Endpoint("a", 1))
    assert ask(endpoints, 100.0, 100.2) == Endpoint("b", 2)
    endpoints.unanswered(late, 100.3)
    endpoints.answered(late, 100.4)
    assert endpoints.current() == Endpoint("b", 2)
    assert ask(endpoints, 101.0, 101.2) == Endpoint("c", 3)


def test_where_all_are_slow_nobody_is_left_for_it() -> None:
    endpoints = several()
    slow = endpoints.attempt(100.0, 103.0)
    endpoints.answered(slow, 100.9)
    assert endpoints.attempt(101.0, 104.0).until == pytest.approx(102.8)
    for now in (102.0, 103.0):  # and that is forgotten again
        endpoints.answered(endpoints.attempt(now, now + 3.0), now)
    assert endpoints.attempt(104.0, 107.0).until == 105.0


def test_no_endpoint_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one endpoint"):
        Endpoints([])


def test_an_address_has_brackets_only_if_it_needs_them() -> None:
    assert Endpoint("::1", 2).store == "[::1]:2"
    assert Endpoint("h", 2).store == "h:2"


def test_an_address_is_not_looked_up() -> None:
    assert addresses(Endpoint("127.0.0.1", 5), 0.0) == [(socket.AF_INET, ("127.0.0.1", 5))]


def test_a_name_is_looked_up() -> None:
    assert addresses(Endpoint("localhost", 5), 5.0)


def test_a_name_that_is_none_fails() -> None:
    with pytest.raises(OSError, match="cannot be resolved"):
        addresses(Endpoint("a" * 70 + ".invalid", 5), 5.0)


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    release, done = threading.Event(), threading.Event()

    def hang(*_args: Any, flags: int = 0, **_options: Any) -> Any:
        if flags:
            raise OSError
        release.wait(10)
        done.set()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(TimeoutError, match="not resolved in time"):
        addresses(Endpoint("slow", 5), 0.01)
    release.set()
    assert done.wait(5)
