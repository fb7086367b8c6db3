from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import recipes
from recipes import events
from recipes._contract.operations import Renew, Renewal
from recipes.client import Client
from recipes.errors import LockTimeout, StoreUnavailable
from recipes.events import EVENTS, Transition, log_json, subscribe
from tests.programs.test_keep import Keeping
from tests.run.doubles import SETTINGS, FaultyEngine

LOCK = {"lock", "recipe", "mode", "attempt", "store"}


@pytest.fixture(autouse=True)
def _as_found() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    events._hooks.clear()
    logging.getLogger("recipes").setLevel(logging.NOTSET)


@pytest.fixture
def seen() -> list[Transition]:
    found: list[Transition] = []
    subscribe(found.append)
    return found


def test_the_list_of_events_is_frozen() -> None:
    """Reference documentation: a change here is a change for everybody who reads logs."""
    assert {name: (level, set(fields)) for name, (level, fields) in EVENTS.items()} == {
        "lock.queued": ("info", {*LOCK, "position"}),
        "lock.acquired": ("info", {*LOCK, "token", "waited_s"}),
        "lock.downgraded": ("info", {*LOCK, "token", "held_s"}),
        "lock.released": ("info", {*LOCK, "token", "held_s"}),
        "lock.timeout": ("info", {*LOCK, "waited_s"}),
        "lock.cancelled": ("info", {*LOCK, "waited_s", "reason"}),
        "lock.suspect": ("warning", {*LOCK, "token"}),
        "lock.lost": ("warning", {*LOCK, "token", "reason"}),
        "lock.requeued": ("warning", {*LOCK, "reason"}),
        "semaphore.limit_differs": ("warning", {*LOCK, "reason", "weight"}),
        "session.started": ("info", {"store", "session", "timeout_s"}),
        "session.suspect": ("warning", {"store", "session"}),
        "session.lost": ("warning", {"store", "session", "reason"}),
        "session.closed": ("info", {"store", "session"}),
        "store.retry": ("warning", {"store", "reason"}),
        "store.stranger": ("warning", {"store", "reason"}),
    }


def lose_the_reply(engine: FaultyEngine, kind: str) -> None:
    left = [kind]

    def after(request: Any) -> None:
        if left and type(request.op).__name__ == left[0]:
            left.clear()
            raise StoreUnavailable("memory://", "cut")

    engine.after = after


def live_through(engine: FaultyEngine) -> None:
    """A client's life in which most things happen."""
    with Client(engine, SETTINGS) as client:
        lock = client.lock("x")
        lose_the_reply(engine, "Enqueue")
        held = lock.acquire()
        other = Client(engine, SETTINGS)
        other.open()
        with pytest.raises(LockTimeout):
            other.lock("x").acquire(timeout=0.1)
        held.release()
        engine.before = cancel
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        engine.before = lambda request: None
        other.close()
        lock.acquire()


def cancel(request: Any) -> None:
    if type(request.op).__name__ == "Enqueue":
        raise KeyboardInterrupt


def test_every_emitted_record_has_exactly_the_fields_that_are_declared(seen: list[Transition]) -> None:
    live_through(FaultyEngine())
    names = {transition.event for transition in seen}
    assert names == {
        "lock.queued",
        "lock.acquired",
        "lock.released",
        "lock.timeout",
        "lock.cancelled",
        "session.started",
        "session.closed",
        "store.retry",
    }
    for transition in seen:
        assert set(transition.fields()) == set(EVENTS[transition.event][1]), transition


def test_the_records_of_the_keeper_have_them_too() -> None:
    """As the keeper makes them; the runtime adds the store."""
    keeping = Keeping(renewals=2)
    keeping.at[101.0] = keeping.grant

    def miss(op: Renew) -> Renewal:
        keeping.now = 112.0
        raise AssertionError

    keeping._answers = [StoreUnavailable("s", "x")] * 6 + [lambda op: Renewal(15.0, op.places)]
    played = keeping.run()
    records = [op.transition for op in played.ops if hasattr(op, "transition")]
    assert [r.event for r in records] == ["session.started", "session.suspect", "lock.suspect", "lock.lost"]
    for record in records:
        assert {*record.fields(), "store"} == set(EVENTS[record.event][1])
    del miss


def test_a_grant_released_by_closing_is_told(seen: list[Transition]) -> None:
    with recipes.connect("memory://") as client:
        token = client.lock("x").acquire().token
    released = [t for t in seen if t.event == "lock.released"]
    assert [(t.lock, t.token) for t in released] == [("x", token)]
    assert released[0].held_s is not None


def test_fields_that_do_not_apply_are_left_out() -> None:
    assert Transition("store.retry", reason="x").fields() == {"reason": "x"}
    assert Transition("lock.queued", position=0).fields() == {"position": 0}


def test_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with recipes.connect("memory://") as client, client.lock("x"):
        pass
    assert capsys.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("recipes").handlers)


def test_nobody_looking_makes_no_record() -> None:
    logging.getLogger("recipes").setLevel(logging.ERROR)
    assert not events.wanted("lock.acquired")
    logging.getLogger("recipes").setLevel(logging.WARNING)
    assert (events.wanted("lock.acquired"), events.wanted("lock.lost")) == (False, True)
    undo = subscribe(lambda transition: None)
    assert events.wanted("lock.acquired")
    undo()
    structlog.configure()
    assert events.wanted("lock.acquired")


def test_the_standard_logger_gets_a_readable_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recipes")
    events.emit(Transition("lock.acquired", lock='a b"c\nd', token=7, waited_s=0.5))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("recipes", "INFO")
    message = record.getMessage()
    assert message.startswith("lock.acquired lock=")
    assert message.endswith("token=7 waited_s=0.5")
    assert "\n" not in message
    events.emit(Transition("lock.lost", lock="x", reason="100% gone {}"))
    assert caplog.records[-1].levelname == "WARNING"
    assert "100% gone {}" in caplog.records[-1].getMessage()


def test_a_level_that_is_off_makes_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "recipes")
    subscribe(lambda transition: None)
    events.emit(Transition("lock.acquired", lock="x"))
    assert caplog.records == []


def test_structlog_as_the_application_configured_it() -> None:
    entries: list[dict[str, Any]] = []

    def keep(logger: object, method: str, entry: Any) -> Any:
        entries.append({"method": method, **entry})
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    events.emit(Transition("lock.acquired", lock="x", token=7))
    events.emit(Transition("lock.lost", lock="x"))
    assert entries == [
        {"method": "info", "event": "lock.acquired", "lock": "x", "token": 7},
        {"method": "warning", "event": "lock.lost", "lock": "x"},
    ]


def test_a_raising_log_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture, seen: list[Transition]) -> None:
    def broken(logger: object, method: str, entry: Any) -> Any:
        raise ZeroDivisionError

    structlog.configure(processors=[broken])
    events.emit(Transition("lock.acquired", lock="x"))
    assert "a subscriber of recipes.events failed" in caplog.text
    assert len(seen) == 1


def test_subscribers_hear_until_they_leave(seen: list[Transition]) -> None:
    other: list[Transition] = []
    leave = subscribe(other.append)
    one = Transition("store.retry", reason="x")
    events.emit(one)
    leave()
    leave()
    events.emit(one)
    assert (len(seen), len(other)) == (2, 1)


def test_a_raising_subscriber_stops_nobody(seen: list[Transition], caplog: pytest.LogCaptureFixture) -> None:
    def broken(transition: Transition) -> None:
        raise ZeroDivisionError

    events._hooks.insert(0, broken)
    with recipes.connect("memory://") as client, client.lock("x") as grant:
        assert grant.held
    assert "lock.acquired" in [transition.event for transition in seen]
    assert "a subscriber of recipes.events failed" in caplog.text


def test_what_is_told_amid_a_telling_is_told_after_it() -> None:
    """A signal handler or a finalizer releases, as a subscriber holds a lock of its own."""
    told: list[str] = []
    lock = threading.Lock()

    def tell(transition: Transition) -> None:
        with lock:
            if transition.event == "session.started":
                events.emit(Transition("session.lost"))
            told.append(transition.event)

    undo = subscribe(tell)
    try:
        telling = threading.Thread(target=events.emit, args=(Transition("session.started"),), daemon=True)
        telling.start()
        telling.join(10)
    finally:
        undo()
    assert told == ["session.started", "session.lost"]


def test_a_subscriber_may_leave_while_it_is_told(seen: list[Transition]) -> None:
    leave = subscribe(lambda transition: leave())
    events.emit(Transition("store.retry"))
    assert len(events._hooks) == 1


def test_json_lines() -> None:
    stream = io.StringIO()
    stop = log_json(stream)
    events.emit(Transition("lock.acquired", lock="naïve\n", token=7, waited_s=0.25))
    stop()
    events.emit(Transition("lock.acquired", lock="x"))
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    stamp = entry.pop("timestamp")
    assert stamp.endswith("Z")
    fields = {"lock": "naïve\n", "token": 7, "waited_s": 0.25}
    assert entry == {"event": "lock.acquired", "pid": os.getpid(), **fields}


def test_json_lines_go_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    stop = log_json()
    events.emit(Transition("lock.lost", lock="x"))
    stop()
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "lock.lost"
