"""What a session hears, and whether it hears at all."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes.stores.sql import hearing as module
from recipes.stores.sql.hearing import LATE_S, PROVE_S, Hearing, event_of
from recipes.stores.sql.requests import Listen


class Mail:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def post(self, event: Any) -> None:
        self.events.append(event)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [1000.0]
    monkeypatch.setattr(module, "boot_time", lambda: at[0])
    return at


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        ("gapp:x/7", Gone("x/7")),
        ("c:~group/x/7", Changed("~group/x/7")),
        ("qa/b:~value/v", Changed("~value/v")),
        ("open", None),
        ("", None),
    ],
)
def test_a_notification_says_what_has_become_of_what(payload: str, event: Any) -> None:
    assert event_of(payload) == event


def test_it_works_once_it_has_heard_itself(now: list[float]) -> None:
    one, mail = Hearing(), Mail()
    listen = Listen(("x/7",), mail)
    assert not one.listen(listen)
    one.connected()
    assert not one.listen(listen)
    one.asked(now[0])
    one.hear("open")
    assert one.listen(listen)
    one.hear("g:x/7")
    assert mail.events == [Gone("x/7")]


def test_it_does_not_work_while_what_should_be_heard_is_not(now: list[float]) -> None:
    one = Hearing()
    one.connected()
    one.hear("open")
    assert not one.to_prove()
    now[0] += PROVE_S
    assert one.to_prove()
    one.asked(now[0])
    assert one.works
    now[0] += LATE_S + 0.1
    assert one.overdue
    assert not one.works
    one.hear("")
    assert one.works


def test_what_does_not_arrive_is_late_however_often_it_is_asked_for(now: list[float]) -> None:
    one = Hearing()
    one.connected()
    one.hear("open")
    for _ in range(2):
        now[0] += PROVE_S
        one.asked(now[0])
    now[0] += LATE_S / 4
    assert one.overdue
    one.hear("")
    now[0] += PROVE_S
    one.asked(now[0])
    now[0] += LATE_S / 4
    assert one.works, "it was asked for a moment ago"


def test_a_connection_that_is_lost_disturbs_who_listens_and_who_does_so_next(now: list[float]) -> None:
    one, before, after = Hearing(), Mail(), Mail()
    one.lost()
    one.listen(Listen(("x/7",), before))
    assert before.events == []
    one.connected()
    one.lost()
    one.listen(Listen(("x/7",), after))
    assert (before.events, after.events) == ([Disturbed()], [Disturbed()])
    now[0] += module.NEWS_S
    later = Mail()
    one.listen(Listen(("x/7",), later))
    assert later.events == []


def unheard(one: Hearing, now: list[float]) -> None:
    """Listen on a connection on which nothing arrives."""
    one.connected()
    one.asked(now[0])
    now[0] += LATE_S + 0.1
    assert one.overdue
    one.lost()


def test_one_that_hears_nothing_again_and_again_listens_seldom(now: list[float]) -> None:
    """Behind a proxy that lends connections each LISTEN stayed on one of them, until all had it."""
    one, rests = Hearing(), []
    for _ in range(module.DEAF_TIMES):
        rests.append(one.rest_s)
        unheard(one, now)
    assert rests == [0.0] * module.DEAF_TIMES
    assert one.rest_s == module.DEAF_S
    one.connected()
    one.hear("open")
    one.lost()
    assert one.rest_s == 0.0


def test_one_that_is_cut_off_before_it_was_proved_listens_again_soon(now: list[float]) -> None:
    one = Hearing()
    unheard(one, now)
    for _ in range(module.DEAF_TIMES):
        one.lost()  # it could not connect
        one.connected()
        one.asked(now[0])
        one.lost()
    assert one.rest_s == 0.0
