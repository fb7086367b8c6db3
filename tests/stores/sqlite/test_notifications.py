"""Bells: what one session tells another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recipes._contract.wakeups import Changed, Gone
from recipes.stores.sqlite.liveness import Folder
from recipes.stores.sqlite.notifications import Notifications


@pytest.fixture
def two_sockets(path: str) -> Iterator[tuple[Notifications, Notifications]]:
    Path(path).touch()
    folder = Folder(path)
    folder.make()
    a, b = Notifications(folder, "a"), Notifications(folder, "b")
    yield a, b
    a.close()
    b.close()


def test_notification_sockets_say_who_has_gone_and_who_has_changed(
    two_sockets: tuple[Notifications, Notifications],
) -> None:
    a, b = two_sockets
    news = [Gone("x/1"), Gone("%2F/2"), Changed("x/3"), Changed("~election/x"), Gone("~election/x/4")]
    a.ring("b", news)
    assert b.hear() == (news, False)
    assert b.hear() == ([], False)
    a.ring("nobody", news)


def test_too_much_to_say_is_said_by_saying_nothing(two_sockets: tuple[Notifications, Notifications]) -> None:
    a, b = two_sockets
    a.ring("b", [Gone(f"{'x' * 1024}/{number}") for number in range(100)])
    assert b.hear() == ([], True)


def test_more_than_a_socket_keeps_is_doubtful(two_sockets: tuple[Notifications, Notifications]) -> None:
    a, b = two_sockets
    for number in range(1000):
        a.ring("b", [Gone(f"x/{number}")])
    news, doubtful = b.hear()
    assert news[:2] == [Gone("x/0"), Gone("x/1")]
    assert doubtful


def test_a_notification_socket_that_is_closed_is_silent(
    two_sockets: tuple[Notifications, Notifications],
) -> None:
    a, b = two_sockets
    b.close()
    a.ring("b", [Gone("x/1")])
    b.ring("a", [Gone("x/1")])
    assert a.hear() == b.hear() == ([], False)
    assert b.tick_s < a.tick_s
