from __future__ import annotations

import asyncio
import io
import json
import linecache
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

import recipes
from recipes import events, testing
from recipes._contract.operations import Renew, Renewal
from recipes.client import Client
from recipes.errors import LockTimeout, StoreTimeout, StoreUnavailable
from recipes.events import EVENTS, Transition, configure, log_json, subscribe
from tests.programs.test_keep import Keeping
from tests.run.doubles import SETTINGS, FaultyBackend

SHARED = ("name", "recipe", "store")
LOCK = {"name", "recipe", "mode", "attempt", "store"}
PERMITS = {*LOCK, "weight"}
WORDS = {
    "election": {"acquired": "elected", "released": "resigned"},
    "group": {"acquired": "joined", "released": "left"},
    "partition": {},
    "multilock": {},
}
"""The nouns of what is held in one way, and their own words for what happens to it."""

TOKENLESS = {"multilock": {"token"}}
OF_PARTS = {"multilock": {"queued", "suspect"}}
"""What happens to the parts alone of what is held together."""
BARRIER = {"name", "recipe", "store", "waited_s"}
HELD_THINGS = {
    "queued": ("debug", {"position"}),
    "acquired": ("debug", {"token", "waited_s"}),
    "released": ("debug", {"token", "held_s"}),
    "timeout": ("info", {"waited_s"}),
    "cancelled": ("info", {"waited_s", "reason"}),
    "suspect": ("warning", {"token"}),
    "lost": ("warning", {"token", "reason"}),
    "requeued": ("warning", {"reason"}),
}


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
    assert {event: (one.level, set(one.fields)) for event, one in EVENTS.items()} == {
        "barrier.passed": ("debug", {*BARRIER, "position"}),
        "barrier.broken": ("info", {*BARRIER, "reason"}),
        "lock.queued": ("debug", {*LOCK, "position"}),
        "lock.acquired": ("debug", {*LOCK, "token", "waited_s"}),
        "lock.downgraded": ("debug", {*LOCK, "token", "held_s"}),
        "lock.released": ("debug", {*LOCK, "token", "held_s"}),
        "lock.timeout": ("info", {*LOCK, "waited_s"}),
        "lock.cancelled": ("info", {*LOCK, "waited_s", "reason"}),
        "lock.suspect": ("warning", {*LOCK, "token"}),
        "lock.lost": ("warning", {*LOCK, "token", "reason"}),
        "lock.requeued": ("warning", {*LOCK, "reason"}),
        "semaphore.queued": ("debug", {*PERMITS, "position"}),
        "semaphore.acquired": ("debug", {*PERMITS, "token", "waited_s"}),
        "semaphore.released": ("debug", {*PERMITS, "token", "held_s"}),
        "semaphore.timeout": ("info", {*PERMITS, "waited_s"}),
        "semaphore.cancelled": ("info", {*PERMITS, "waited_s", "reason"}),
        "semaphore.suspect": ("warning", {*PERMITS, "token"}),
        "semaphore.lost": ("warning", {*PERMITS, "token", "reason"}),
        "semaphore.requeued": ("warning", {*PERMITS, "reason"}),
        "semaphore.limit_differs": ("warning", {*PERMITS, "reason"}),
        **{
            f"{noun}.{words.get(what, what)}": (level, {*LOCK, *more} - TOKENLESS.get(noun, set()))
            for noun, words in WORDS.items()
            for what, (level, more) in HELD_THINGS.items()
            if what not in OF_PARTS.get(noun, ())
        },
        "value.written": ("debug", {*SHARED, "version"}),
        "value.deleted": ("debug", {*SHARED, "version"}),
        "value.unknown": ("warning", {*SHARED, "reason"}),
        "counter.added": ("debug", {*SHARED, "version"}),
        "counter.written": ("debug", {*SHARED, "version"}),
        "counter.unknown": ("warning", {*SHARED, "reason"}),
        "latch.counted": ("debug", {*SHARED, "version"}),
        "latch.unknown": ("warning", {*SHARED, "reason"}),
        "session.started": ("info", {"store", "session", "timeout_s"}),
        "session.suspect": ("warning", {"store", "session"}),
        "session.lost": ("warning", {"store", "session", "reason"}),
        "session.closed": ("info", {"store", "session"}),
        "store.retry": ("warning", {"store", "reason"}),
        "store.stranger": ("warning", {"store", "reason"}),
    }


def lose_the_reply(backend: FaultyBackend, kind: str) -> None:
    left = [kind]

    def after(request: Any) -> None:
        if left and type(request.op).__name__ == left[0]:
            left.clear()
            raise StoreUnavailable("memory://", "cut")

    backend.after = after


def live_through(backend: FaultyBackend) -> None:
    """A client's life in which most things happen."""
    with Client(backend, SETTINGS) as client:
        lock = client.lock("x")
        lose_the_reply(backend, "Enqueue")
        held = lock.acquire()
        other = Client(backend, SETTINGS)
        other.open()
        with pytest.raises(LockTimeout):
            other.lock("x").acquire(timeout=1.0)
        held.release()
        backend.before = cancel
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
        backend.before = lambda request: None
        other.close()
        lock.acquire()


@pytest.mark.parametrize("several", [False, True])
def test_an_acquire_that_does_not_wait_ends_as_one_that_does(seen: list[Transition], several: bool) -> None:
    backend = FaultyBackend()
    with Client(backend, SETTINGS) as client, Client(backend, SETTINGS) as other:
        held = other.lock("x").acquire()
        lock = client.multilock(client.lock("x"), client.lock("y")) if several else client.lock("x")
        name = "multilock" if several else "lock"
        assert lock.try_acquire() is None
        assert [one for one in seen if one.what == "timeout"] == []
        with pytest.raises(LockTimeout):
            lock.acquire(timeout=0)
        backend.before = fail
        with pytest.raises(StoreTimeout):
            lock.acquire(timeout=0)
        backend.before = cancel_a_look
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(timeout=0)
        backend.before = lambda request: None
        (cancelled,) = (one for one in seen if one.what == "cancelled")
        assert (cancelled.event, cancelled.reason) == (f"{name}.cancelled", "KeyboardInterrupt")
        ends = [one for one in seen if one.what == "timeout"]
        assert [one.event for one in ends] == [f"{name}.timeout"] * 2
        assert all(one.name == lock.name and one.waited_s is not None for one in ends)
        held.release()


def fail(request: Any) -> None:
    if type(request.op).__name__ == "Probe":
        raise StoreUnavailable("memory://", "cut", unsent=True)


def cancel_a_look(request: Any) -> None:
    if type(request.op).__name__ == "Probe":
        raise KeyboardInterrupt


def cancel(request: Any) -> None:
    if type(request.op).__name__ == "Enqueue":
        raise KeyboardInterrupt


def test_every_emitted_record_has_exactly_the_fields_that_are_declared(seen: list[Transition]) -> None:
    live_through(FaultyBackend())
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
        assert set(transition.fields()) == set(EVENTS[transition.event].fields), transition


def test_the_records_of_the_keepalive_loop_have_them_too() -> None:
    """As the keepalive loop makes them; the runtime adds the store."""
    keeping = Keeping(renewals=2)
    keeping.at[101.0] = keeping.grant

    def miss(op: Renew) -> Renewal:
        keeping.now = 112.0
        raise AssertionError

    keeping._answers = [StoreUnavailable("s", "x")] * 6 + [lambda op: Renewal(15.0, op.entries)]
    played = keeping.run()
    records = [op.transition for op in played.ops if hasattr(op, "transition")]
    assert [r.event for r in records] == ["session.started", "session.suspect", "lock.suspect", "lock.lost"]
    for record in records:
        assert {*record.fields(), "store"} == set(EVENTS[record.event].fields)
    del miss


def test_a_grant_released_by_closing_is_told(seen: list[Transition]) -> None:
    with recipes.connect("memory://") as client:
        token = client.lock("x").acquire().token
    released = [t for t in seen if t.event == "lock.released"]
    assert [(t.name, t.token) for t in released] == [("x", token)]
    assert released[0].held_s is not None


def test_fields_that_do_not_apply_are_left_out() -> None:
    assert Transition("store.retry", reason="x").fields() == {"reason": "x"}
    assert Transition("lock.queued", position=0).fields() == {"position": 0}


def test_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with recipes.connect("memory://") as client, client.lock("x"):
        pass
    assert capsys.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("recipes").handlers)


def test_an_event_is_named_after_the_noun_of_its_recipe() -> None:
    labels = {"name": "x", "store": "memory://"}
    for recipe, noun in (("lock", "lock"), ("rlock", "lock"), ("rwlock", "lock"), ("semaphore", "semaphore")):
        one = events.happened("acquired", {**labels, "recipe": recipe}, token=7)
        assert (one.event, one.noun, one.what) == (f"{noun}.acquired", noun, "acquired")
        assert one.fields() == {**labels, "recipe": recipe, "token": 7}


@pytest.mark.parametrize("recipe", WORDS)
def test_an_event_has_the_word_of_its_noun_and_still_says_which_transition_it_is(recipe: str) -> None:
    labels = {"name": "x", "recipe": recipe}
    for what in HELD_THINGS.keys() - OF_PARTS.get(recipe, set()):
        one = events.happened(what, labels)
        assert one.event == f"{recipe}.{WORDS[recipe].get(what, what)}"
        assert one.event in EVENTS
        assert (one.noun, one.what) == (recipe, what)


@pytest.mark.parametrize("recipe", ["lock", "rlock", "reader", "writer"])
def test_every_kind_of_lock_has_the_events_of_a_lock(recipe: str, seen: list[Transition]) -> None:
    with recipes.connect("memory://") as client:
        locks = {"lock": client.lock("x"), "rlock": client.rlock("x"), **vars(client.rwlock("x"))}
        with locks[recipe]:
            pass
    assert [one.event for one in seen if one.name == "x"] == ["lock.acquired", "lock.released"]


def test_seconds_are_rounded_to_a_microsecond() -> None:
    told = Transition("lock.released", token=7, held_s=1 / 3)
    assert told.fields() == {"token": 7, "held_s": 0.333333}
    assert told.held_s == 1 / 3


def test_nobody_looking_makes_no_record() -> None:
    logging.getLogger("recipes").setLevel(logging.ERROR)
    assert not events.wanted("lock.acquired")
    logging.getLogger("recipes").setLevel(logging.INFO)
    assert (events.wanted("lock.acquired"), events.wanted("lock.lost")) == (False, True)
    undo = subscribe(lambda transition: None)
    assert events.wanted("lock.acquired")
    undo()
    assert not events.wanted("lock.acquired")


def test_the_standard_logger_gets_a_readable_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "recipes")
    events.emit(Transition("lock.acquired", name='a b"c\nd', token=7, waited_s=0.5))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("recipes", "DEBUG")
    message = record.getMessage()
    assert message.startswith("lock.acquired name=")
    assert message.endswith("token=7 waited_s=0.5")
    assert "\n" not in message
    events.emit(Transition("lock.lost", name="x", reason="100% gone {}"))
    assert caplog.records[-1].levelname == "WARNING"
    assert "100% gone {}" in caplog.records[-1].getMessage()


def test_a_standard_record_carries_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    """All under their names but one: the ``name`` of a record is that of its logger."""
    caplog.set_level(logging.DEBUG, "recipes")
    with recipes.connect("memory://") as client, client.lock("x") as grant:
        (acquired,) = [one for one in caplog.records if one.msg.startswith("lock.acquired")]
        told = vars(acquired)
    assert acquired.name == "recipes"
    assert (told["event"], told["recipe_name"]) == ("lock.acquired", "x")
    assert (told["recipe"], told["mode"], told["attempt"]) == ("lock", "exclusive", 1)
    assert (told["token"], told["store"]) == (grant.token, "memory://")
    assert told["waited_s"] == round(told["waited_s"], 6)
    assert "held_s" not in told


def test_a_standard_record_has_the_line_of_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "recipes")
    with testing.Store() as store, store.connect() as client, store.connect() as other, ExitStack() as stack:
        lock = client.lock("x")
        with lock:
            pass
        stack.enter_context(lock)
        stack.close()
        held = lock.acquire()
        with store.clock.jumping(), pytest.raises(LockTimeout):
            other.rwlock("x").reader.acquire(timeout=60)
        held.release()
    assert called(caplog) == [
        ("with lock:", "lock.acquired"),
        ("with lock:", "lock.released"),
        ("stack.enter_context(lock)", "lock.acquired"),
        ("stack.close()", "lock.released"),
        ("held = lock.acquire()", "lock.acquired"),
        ('other.rwlock("x").reader.acquire(timeout=60)', "lock.queued"),
        ('other.rwlock("x").reader.acquire(timeout=60)', "lock.timeout"),
        ("held.release()", "lock.released"),
    ]


def test_a_standard_record_has_the_line_of_its_caller_in_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with testing.Store() as store, store.connect_async() as client:
            lock = client.lock("x")
            held = await lock.acquire()
            waiting = asyncio.create_task(lock.acquire(timeout=60))
            await store.wait_for_waiters_async("x")
            await store.clock.advance_async(60)
            with pytest.raises(LockTimeout):
                await waiting
            await held.release()
            async with lock:
                pass

    caplog.set_level(logging.DEBUG, "recipes")
    asyncio.run(main())
    assert called(caplog) == [
        ("held = await lock.acquire()", "lock.acquired"),
        (None, "lock.queued"),  # the task has no line of the user's
        (None, "lock.timeout"),
        ("await held.release()", "lock.released"),
        ("async with lock:", "lock.acquired"),
        ("async with lock:", "lock.released"),
    ]


def test_what_no_call_led_to_has_a_line_of_the_package(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recipes")
    logged = threading.Event()
    subscribe(lambda transition: logged.set())
    with recipes.connect("memory://"):
        assert logged.wait(30)
        (started,) = caplog.records
    assert started.getMessage().startswith("session.started ")
    assert started.pathname == events.__file__


def called(caplog: pytest.LogCaptureFixture) -> list[tuple[str | None, str]]:
    """Return the event of each record of a lock, behind the line of this file that led to it."""
    return [
        (
            linecache.getline(__file__, record.lineno).strip() if record.pathname == __file__ else None,
            vars(record)["event"],
        )
        for record in caplog.records
        if vars(record)["event"].startswith("lock.")
    ]


def test_a_level_that_is_off_makes_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "recipes")
    subscribe(lambda transition: None)
    events.emit(Transition("lock.acquired", name="x"))
    assert caplog.records == []


@pytest.fixture
def entries() -> list[dict[str, Any]]:
    """Return what a structlog gets that the application configured."""
    found: list[dict[str, Any]] = []

    def keep(logger: object, method: str, entry: Any) -> Any:
        found.append({"method": method, **entry})
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    return found


def test_structlog_as_the_application_configured_it(entries: list[dict[str, Any]]) -> None:
    assert events.wanted("lock.acquired")
    events.emit(Transition("lock.acquired", name="x", token=7))
    events.emit(Transition("lock.lost", name="x"))
    assert entries == [
        {"method": "debug", "event": "lock.acquired", "name": "x", "token": 7},
        {"method": "warning", "event": "lock.lost", "name": "x"},
    ]


def test_the_level_of_the_standard_logger_counts_under_structlog(entries: list[dict[str, Any]]) -> None:
    logging.getLogger("recipes").setLevel(logging.INFO)
    assert (events.wanted("lock.acquired"), events.wanted("lock.timeout")) == (False, True)
    for event in ("lock.acquired", "lock.timeout", "lock.lost"):
        events.emit(Transition(event, name="x"))
    assert [one["event"] for one in entries] == ["lock.timeout", "lock.lost"]


@pytest.mark.parametrize(
    ("level", "events_logged"),
    [
        ("debug", ["lock.acquired", "lock.timeout", "lock.lost"]),
        ("INFO", ["lock.timeout", "lock.lost"]),
        (logging.WARNING, ["lock.lost"]),
        ("error", []),
    ],
)
def test_one_call_turns_events_down_under_structlog(
    level: Any, events_logged: list[str], entries: list[dict[str, Any]]
) -> None:
    events.configure(level=level)
    for event in ("lock.acquired", "lock.timeout", "lock.lost"):
        events.emit(Transition(event, name="x"))
    assert [one["event"] for one in entries] == events_logged


@pytest.mark.parametrize("set_up", [configure, log_json])
def test_a_level_that_does_not_exist_is_refused(set_up: Any) -> None:
    with pytest.raises(ValueError, match="there is no level 'loud'"):
        set_up(level="loud")
    for wrong in (None, True, 1.5):
        with pytest.raises(TypeError, match="level is text or a number"):
            set_up(level=wrong)
    assert not events._hooks


PROGRAM = """
import logging, recipes
logging.basicConfig(level=LEVEL, format="%(levelname)s %(name)s %(filename)s:%(lineno)d %(message)s")
with recipes.connect("memory://") as client, client.lock("nightly"):
    pass
"""


def run_program(level: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("LEVEL", repr(level))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_program_with_basic_config_has_one_readable_line_a_transition() -> None:
    lines = [line for line in run_program("DEBUG") if " recipes " in line]
    assert [re.sub(r"=[0-9.a-f-]+\b", "=N", line.partition(" store=")[0]) for line in lines] == [
        lines[0].partition(" store=")[0],  # of a thread of the package
        "DEBUG recipes <string>:4 lock.acquired name=nightly recipe=lock mode=exclusive token=N attempt=N",
        "DEBUG recipes <string>:4 lock.released name=nightly recipe=lock mode=exclusive token=N attempt=N",
        "INFO recipes <string>:4 session.closed",
    ]
    assert lines[0].startswith("INFO recipes ")
    assert " session.started " in lines[0]


def test_a_program_that_logs_from_info_on_sees_no_routine() -> None:
    events_logged = [line.split()[3] for line in run_program("INFO") if " recipes " in line]
    assert events_logged == ["session.started", "session.closed"]


def make_standard_records() -> None:
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def test_structlog_that_makes_standard_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "recipes")
    make_standard_records()
    events.emit(Transition("lock.acquired", name="x", token=7))
    (record,) = caplog.records
    told = vars(record)
    assert (record.getMessage(), record.name, record.levelname) == ("lock.acquired", "recipes", "DEBUG")
    assert (told["recipe_name"], told["token"]) == ("x", 7)


def test_a_raising_log_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture, seen: list[Transition]) -> None:
    def broken(logger: object, method: str, entry: Any) -> Any:
        raise ZeroDivisionError

    structlog.configure(processors=[broken])
    events.emit(Transition("lock.acquired", name="x"))
    assert "a subscriber of recipes.events failed" in caplog.text
    assert len(seen) == 1


class _Raises(logging.Handler):
    """What the application adds to the log, and raises: one of these at a time."""

    def __init__(self, where: str, error: type[BaseException] = ZeroDivisionError) -> None:
        super().__init__()
        self.error = error
        if where == "handler":
            self.emit = self.fail  # type: ignore[method-assign]
        elif where == "filter":
            self.addFilter(self.fail)
        else:
            logging.setLogRecordFactory(self.fail)

    def fail(self, *args: Any, **more: Any) -> Any:
        raise self.error(f"{len(args) + len(more)} given")


WHERE = ["filter", "handler", "factory"]


@pytest.fixture
def breaking() -> Iterator[Any]:
    """Have the log raise from now on."""
    logger, factory = logging.getLogger("recipes"), logging.getLogRecordFactory()
    added: list[logging.Handler] = []

    def add(*how: Any) -> None:
        added.append(_Raises(*how))
        logger.addHandler(added[-1])

    yield add
    logging.setLogRecordFactory(factory)
    for handler in added:
        logger.removeHandler(handler)


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("where", WHERE)
def test_a_log_that_raises_is_printed_and_goes_no_further(
    where: str, error: Any, breaking: Any, seen: list[Transition], capsys: pytest.CaptureFixture[str]
) -> None:
    breaking(where, error)
    events.emit(Transition("lock.lost", name="x"))
    events.log.warning("%s differs", "it")
    assert len(seen) == 1
    printed = capsys.readouterr().err
    assert "'a subscriber of recipes.events failed' could not be logged:\nTraceback" in printed
    assert "'%s differs' could not be logged:\nTraceback" in printed
    assert printed.count(error.__name__) >= 3


def test_a_log_that_raises_is_not_printed_where_that_cannot_be(
    breaking: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    breaking("filter")
    for stream in (None, closed):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            events.log.warning("nobody reads this")
    monkeypatch.setattr(logging, "raiseExceptions", False)
    events.log.warning("nor this")
    assert capsys.readouterr() == ("", "")


def test_what_is_logged_beside_events_has_the_line_that_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    events.log.warning("%s differs", "it")
    (record,) = caplog.records
    assert (record.getMessage(), record.pathname, record.funcName) == (
        "it differs",
        __file__,
        "test_what_is_logged_beside_events_has_the_line_that_logs_it",
    )


@pytest.mark.parametrize("where", WHERE)
def test_a_log_that_raises_ends_no_session(where: str, breaking: Any, seen: list[Transition]) -> None:
    with testing.Store() as store, store.connect() as client:
        grant = client.lock("x").acquire()
        session = client.session.id
        breaking(where)
        with store.pause(client):
            store.clock.advance(12)
        assert "session.suspect" in [one.event for one in seen]
        store.clock.advance(60)
        assert grant.held
        assert client.session.id == session


@pytest.mark.parametrize("where", WHERE)
def test_a_log_that_raises_ends_no_session_in_asyncio(
    where: str, breaking: Any, seen: list[Transition]
) -> None:
    async def main() -> None:
        async with testing.Store() as store, store.connect_async() as client:
            grant = await client.lock("x").acquire()
            session = client.session.id
            breaking(where)
            with store.pause(client):
                await store.clock.advance_async(12)
            assert "session.suspect" in [one.event for one in seen]
            await store.clock.advance_async(60)
            assert grant.held
            assert client.session.id == session

    asyncio.run(main())


@pytest.fixture
def taken() -> Iterator[set[str]]:
    """Have each record come with attributes of these names, which the application uses."""
    names: set[str] = set()
    factory = logging.getLogRecordFactory()

    def make(*args: Any, **more: Any) -> logging.LogRecord:
        record = factory(*args, **more)
        vars(record).update(dict.fromkeys(names, "theirs"))
        return record

    logging.setLogRecordFactory(make)
    yield names
    logging.setLogRecordFactory(factory)


FILLED = Transition("lock.lost", **dict.fromkeys(events._FIELDS, "ours"))  # type: ignore[arg-type]


@pytest.mark.parametrize("by_structlog", [False, True])
def test_a_field_whose_name_the_application_uses_has_another(
    by_structlog: bool, taken: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    if by_structlog:
        make_standard_records()
    own = {"event", *events._FIELDS}
    taken |= own - {"name"}
    events.emit(FILLED)
    (record,) = caplog.records
    told = vars(record)
    assert record.getMessage().startswith("lock.lost")
    assert (record.name, record.levelname) == ("recipes", "WARNING")
    assert all(told[name] == "theirs" for name in taken)
    assert all(told[f"recipe_{name}"] == "ours" for name in events._FIELDS)
    caplog.clear()
    taken |= {f"recipe_{name}" for name in own}
    events.emit(FILLED)
    (record,) = caplog.records
    assert record.getMessage().startswith("lock.lost")
    assert all(vars(record)[name] == "theirs" for name in taken)


def test_subscribers_hear_until_they_leave(seen: list[Transition]) -> None:
    other: list[Transition] = []
    leave = subscribe(other.append)
    one = Transition("store.retry", reason="x")
    events.emit(one)
    leave()
    leave()
    events.emit(one)
    assert (len(seen), len(other)) == (2, 1)


def test_one_that_leaves_twice_leaves_the_others_of_the_same_function() -> None:
    other: list[Transition] = []
    first, second = subscribe(other.append), subscribe(other.append)
    first()
    first()
    events.emit(Transition("store.retry"))
    assert len(other) == 1
    second()
    events.emit(Transition("store.retry"))
    assert len(other) == 1


def test_a_name_says_nothing_to_the_terminal_that_shows_the_log(caplog: pytest.LogCaptureFixture) -> None:
    name = "x\r2026 lock.acquired name=admin\x1b[2K\u2028\x9b"
    events.emit(Transition("lock.lost", name=name, reason="gone"))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "\\r2026 lock.acquired" in record.getMessage()
    assert record.recipe_name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["hook", "log"])
@pytest.mark.parametrize("raised", [SystemExit, TimeoutError])
def test_what_a_signal_handler_raises_amid_a_telling_goes_on(
    where: str, raised: type[BaseException], breaking: Any
) -> None:
    """A worker that is told to end waits no more, wherever it is struck."""

    def handle(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGUSR1, handle)
    undo = subscribe(lambda _: signal.raise_signal(signal.SIGUSR1)) if where == "hook" else None
    if where == "log":
        breaking("filter", lambda _: signal.raise_signal(signal.SIGUSR1))
    try:
        with pytest.raises(raised):
            events.emit(Transition("lock.lost", name="x"))
    finally:
        signal.signal(signal.SIGUSR1, before)
        if undo is not None:
            undo()


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
    events.emit(Transition("lock.acquired", name="naïve\n", token=7, waited_s=0.25))
    events.emit(Transition("lock.lost", name="x"))
    stop()
    events.emit(Transition("lock.acquired", name="x"))
    first, second = map(json.loads, stream.getvalue().splitlines())
    stamp = first.pop("timestamp")
    assert datetime.fromisoformat(stamp).tzinfo is UTC
    fields = {"name": "naïve\n", "token": 7, "waited_s": 0.25}
    assert first == {"event": "lock.acquired", "level": "debug", "pid": os.getpid(), **fields}
    assert (second["event"], second["level"]) == ("lock.lost", "warning")


class _Counting(io.StringIO):
    """A stream without a buffer: what is written is there, and others write in between."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return len(text)


@pytest.mark.parametrize("by_default", [False, True])
def test_a_json_line_is_written_at_once(by_default: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Counting()
    if by_default:
        monkeypatch.setattr(sys, "stderr", stream)
    stop = log_json(None if by_default else stream)
    for event in ("lock.acquired", "lock.lost"):
        events.emit(Transition(event, name="x"))
    stop()
    assert [json.loads(line)["event"] for line in stream.written] == ["lock.acquired", "lock.lost"]
    assert all(line.endswith("}\n") for line in stream.written)


def test_json_lines_go_nowhere_without_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    stop = log_json()
    events.emit(Transition("lock.lost", name="x"))
    stop()
    assert capsys.readouterr().out == ""


def test_json_lines_from_a_level_on() -> None:
    stream = io.StringIO()
    stop = log_json(stream, level="info")
    for event in ("lock.acquired", "lock.timeout", "lock.lost"):
        events.emit(Transition(event, name="x"))
    stop()
    levels = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert levels == ["info", "warning"]


def test_json_lines_go_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    stop = log_json()
    events.emit(Transition("lock.lost", name="x"))
    stop()
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "lock.lost"


def nothing() -> None:
    raise AssertionError("it takes nothing, so it is called with nothing")


async def later(transition: Transition) -> None:
    raise AssertionError("nobody awaits it")


def test_what_cannot_be_told_of_events_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="a hook is a function, which is called later, not 5"):
        subscribe(5)  # type: ignore[arg-type]
    for hook, complaint in ((nothing, "nothing()"), (later, "later is a coroutine function")):
        with pytest.raises(TypeError, match=re.escape(complaint)):
            subscribe(hook)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"writes to an open file, not to 'events\.jsonl'"):
        log_json("events.jsonl")  # type: ignore[arg-type]
