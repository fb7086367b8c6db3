from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from recipes.stores.etcd.wire_dial import Endpoint, Endpoints, addresses


def test_the_next_endpoint_serves_after_a_failure_and_many_failures_of_one_count_once() -> None:
    endpoints = Endpoints([("a", 1), ("b", 2)])
    first = endpoints.current()
    endpoints.failed(first)
    endpoints.failed(first)
    assert endpoints.current() == Endpoint("b", 2)
    endpoints.failed(endpoints.current())
    assert endpoints.current() == first


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
