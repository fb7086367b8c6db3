"""Real clients, in both APIs; read back as Prometheus scrapes it, and from OpenTelemetry's own exporters."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry, Counter, generate_latest

import recipes
from recipes import Client, events, telemetry, testing
from tests.run.doubles import FAST, FaultyBackend
from tests.telemetry.looking import points_of, prometheus_text, seen_by_otel, seen_by_prometheus, spans_of
from tests.telemetry.scenes import APIS, blocking

each_api = pytest.mark.parametrize("scene", list(APIS.values()), ids=list(APIS))


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4().hex}" if request.param == "memory" else f"sqlite://{tmp_path}/locks.db"


@each_api
def test_prometheus_reads_what_happened(url: str, scene: Any) -> None:
    seen_by_prometheus(lambda: scene(url))


@each_api
def test_opentelemetry_reads_what_happened(url: str, scene: Any) -> None:
    seen_by_otel(lambda: scene(url))


@each_api
def test_spans_link_who_waits_to_who_holds(url: str, scene: Any) -> None:
    queued: list[int] = []

    def in_a_request(tracer: Any) -> None:
        with tracer.start_as_current_span("request"):
            queued.append(scene(url))

    spans = spans_of(in_a_request)
    (request,) = [span for span in spans if span.name == "request"]
    asked = [span for span in spans if span.name == "lock.acquire"]
    held = {span.context.span_id: span for span in spans if span.name == "lock.hold"}
    outcomes = [span.attributes["recipes.outcome"] for span in asked]
    assert outcomes == ["acquired", "timeout", "acquired", "acquired"]
    free, late, waited, reader = asked
    (first, second, third) = sorted(held.values(), key=lambda span: span.attributes["recipes.token"])
    assert [link.context.span_id for link in first.links] == [free.context.span_id]
    assert [link.context.span_id for link in second.links] == [waited.context.span_id]
    assert [held[link.context.span_id] for link in waited.links] == [first]
    assert [held[link.context.span_id] for link in late.links] == [first] * (queued[0] - 1)
    assert free.links == ()
    assert reader.links == ()
    assert late.status.status_code is StatusCode.ERROR
    assert late.start_time <= late.end_time <= waited.end_time
    assert first.start_time < second.start_time
    assert third.attributes["recipes.mode"] == "shared"
    for span in (free, late, first):  # made by the thread or task that is in the request
        assert span.parent is not None
        assert span.parent.span_id == request.context.span_id


def test_a_loss_ends_a_span_in_error_and_is_counted() -> None:
    registry = CollectorRegistry()
    stop = telemetry.prometheus(registry)

    def lose(tracer: Any) -> None:
        with testing.Store() as store, store.connect() as client:
            lost = client.lock("x").acquire()
            with store.pause(client):
                store.clock.advance(client.session.timeout or 60)
                assert lost.lost.wait(30)

    (asked, held) = spans_of(lose)
    assert (asked.name, held.name) == ("lock.acquire", "lock.hold")
    assert held.status.status_code is StatusCode.ERROR
    assert held.status.description == "the session was not renewed in time"
    assert [event.name for event in held.events] == ["lock.suspect"]
    text = generate_latest(registry).decode()
    stop()
    for counted in ("lock_lost_total{", "session_lost_total{", "session_late_renewals_total{"):
        assert f"recipes_{counted}" in text
    assert 'outcome="lost"' in text


def test_readers_are_not_linked_to_readers_but_a_writer_to_all() -> None:
    def scene(tracer: Any) -> None:
        url = f"memory://{uuid.uuid4().hex}"
        with recipes.connect(url) as first, recipes.connect(url) as second, recipes.connect(url) as third:
            writer = first.rwlock("x").writer.acquire()
            writer.downgrade()
            with second.rwlock("x").reader, pytest.raises(recipes.LockTimeout) as late:
                third.rwlock("x").writer.acquire(timeout=2)
            assert late.value.position == 2
            writer.release()

    spans = spans_of(scene)
    of_reader = [span for span in spans if span.attributes["recipes.mode"] == "shared"]
    (late,) = [span for span in spans if span.attributes.get("recipes.outcome") == "timeout"]
    assert [len(span.links) for span in of_reader if span.name == "lock.acquire"] == [0]
    assert len(late.links) == 2
    assert [event.name for span in spans for event in span.events] == ["lock.downgraded"]


def test_a_reader_that_queues_behind_a_writer_is_not_linked_to_the_readers_before_it() -> None:
    def scene(tracer: Any) -> None:
        def tell(event: str, mode: str, token: int | None = None) -> None:
            events.emit(events.Transition(event, name="x", store="s", mode=mode, token=token, waited_s=0.0))

        tell("lock.acquired", "shared", 1)
        tell("lock.queued", "shared")  # a writer waits in between
        tell("lock.released", "shared", 1)
        tell("lock.acquired", "shared", 3)

    asked = [span for span in spans_of(scene) if span.name == "lock.acquire"]
    assert [len(span.links) for span in asked] == [0, 0]


@pytest.mark.parametrize("noun", events.HELD)
def test_what_each_noun_has_a_word_of_its_own_for_is_a_span(noun: str) -> None:
    def scene(tracer: Any) -> None:
        for what in ("acquired", "released"):
            fields = {"name": "x", "store": "s", "mode": "exclusive", "token": 1, "waited_s": 0.0}
            events.emit(events.Transition(events.event_of(noun, what), **fields))
        (ended,) = events._hooks[-1].__self__._of_late.values()  # type: ignore[attr-defined]
        assert [held.ended for held in ended] == [2]

    spans = spans_of(scene)
    assert [span.name for span in spans] == [f"{noun}.acquire", f"{noun}.hold"]
    assert spans[0].attributes["recipes.outcome"] == "acquired"


def test_a_member_is_not_linked_to_those_that_are_there_beside_it() -> None:
    def scene(tracer: Any) -> None:
        for what, token in (("acquired", 1), ("queued", None), ("acquired", 2)):
            fields = {"name": "g", "store": "s", "mode": "exclusive", "token": token, "waited_s": 0.0}
            events.emit(events.Transition(events.event_of("group", what), **fields))

    joined = [span for span in spans_of(scene) if span.name == "group.acquire"]
    assert [len(span.links) for span in joined] == [0, 0]


def test_a_write_is_an_event_of_the_span_in_which_it_was_made() -> None:
    def scene(tracer: Any) -> None:
        with recipes.connect(f"memory://{uuid.uuid4().hex}") as client:
            with tracer.start_as_current_span("request"):
                client.value("config").set(b"new")
                client.counter("orders").add()
            client.latch("ready", 2).count_down()  # in no span

    (request,) = spans_of(scene)
    assert [event.name for event in request.events] == ["value.written", "counter.added"]
    written = request.events[0].attributes
    assert written["recipes.name"] == "config"
    assert written["recipes.version"] > 0


def test_a_call_of_a_barrier_is_a_span_in_error_if_it_broke() -> None:
    def scene(tracer: Any) -> None:
        with (
            recipes.connect(f"memory://{uuid.uuid4().hex}") as client,
            tracer.start_as_current_span("request"),
        ):
            assert client.barrier("alone", 1).wait() == 0
            with pytest.raises(recipes.BarrierBroken):
                client.barrier("for two", 2).wait(timeout=0.05)

    passed, broken, request = spans_of(scene)
    assert [span.name for span in (passed, broken)] == ["barrier.wait"] * 2
    assert [span.attributes["recipes.outcome"] for span in (passed, broken)] == ["passed", "broken"]
    assert passed.status.status_code is StatusCode.UNSET
    assert broken.status.status_code is StatusCode.ERROR
    assert broken.end_time - broken.start_time >= 50_000_000
    for span in (passed, broken):
        assert span.parent is not None
        assert span.parent.span_id == request.context.span_id


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_writes_are_counted_by_both_exporters(face: str) -> None:
    url = f"memory://{uuid.uuid4().hex}"

    def write() -> None:
        with recipes.connect(url) as client:
            client.value("config").set(b"new")
            assert client.value("config").delete()
            assert client.counter("orders").add(2) == 2
            client.latch("ready", 2).count_down()

    async def write_awaiting() -> None:
        async with recipes.connect_async(url) as client:
            await client.value("config").set(b"new")
            assert await client.value("config").delete()
            assert await client.counter("orders").add(2) == 2
            await client.latch("ready", 2).count_down()

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    stop = telemetry.otel_metrics(provider)
    scene = write if face == "blocking" else lambda: asyncio.run(write_awaiting())
    _, text = prometheus_text(lambda: scene() or 0)
    for noun, outcome in (
        ("value", "written"),
        ("value", "deleted"),
        ("counter", "added"),
        ("latch", "counted"),
    ):
        labels = f'outcome="{outcome}",recipe="{noun}",store="{url}"'
        assert f"recipes_{noun}_writes_total{{{labels}}} 1.0" in text
        assert points_of(reader, url)[f"recipes.{noun}.writes", outcome, ""].value == 1
    stop()
    provider.shutdown()


def test_what_two_hold_together_at_once_is_told_apart() -> None:
    released: list[int] = []

    def scene(tracer: Any) -> None:
        url = f"memory://{uuid.uuid4().hex}"
        with recipes.connect(url) as one, recipes.connect(url) as other:
            grants = [
                client.multilock(client.rwlock("a").reader, client.rwlock("b").reader).acquire()
                for client in (one, other)
            ]
            released.extend(grant.release() for grant in grants)

    spans = [span for span in spans_of(scene) if span.name.startswith("multilock.")]
    assert released == [True, True]
    assert [span.name for span in spans] == ["multilock.acquire"] * 2 + ["multilock.hold"] * 2
    first, second, *held = spans
    links = [link.context.span_id for span in held for link in span.links]
    assert links == [first.context.span_id, second.context.span_id], "each ends as it is released"
    assert not any("grant" in attribute for span in spans for attribute in span.attributes)


def test_losses_of_what_two_hold_together_at_once_are_told_apart() -> None:
    lost = threading.Semaphore(0)

    def tell(transition: events.Transition) -> None:
        if transition.event == "multilock.lost":
            lost.release()

    def lose() -> int:
        end = events.subscribe(tell)
        with testing.Store() as store, store.connect() as client:
            together = client.multilock(client.rwlock("a").reader, client.rwlock("b").reader)
            grants = [together.acquire(), together.acquire()]
            with store.pause(client):
                store.clock.advance(client.session.timeout or 60)
                assert all(lost.acquire(timeout=30) for _ in grants)
        end()
        return len(grants)

    times, text = prometheus_text(lose)
    name = "recipes_multilock_hold_duration_seconds_count{"
    held = [line for line in text.splitlines() if line.startswith(name)]
    assert [line.rpartition(" ")[2] for line in held] == [f"{times}.0"]


def test_what_tracing_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["recipes.telemetry.otel_spans"], "MOST", 3)

    def scene(tracer: Any) -> None:
        spans = events._hooks[-1].__self__  # type: ignore[attr-defined]
        for number in range(9):
            for event in ("lock.queued", "lock.acquired"):
                told = {"name": f"x{number}", "store": "s", "token": number, "mode": "exclusive"}
                events.emit(events.Transition(event, **told, waited_s=0.0))
                events.emit(events.Transition("lock.queued", name=f"y{number}", store="s"))
        events.emit(events.Transition("lock.lost", name="x0", store="s", token=0, reason="long forgotten"))
        events.emit(events.Transition("lock.suspect", name="x0", store="s", token=0))
        assert max(len(spans._held), len(spans._of_late), len(spans._queued)) == 3

    spans = spans_of(scene)
    assert len([span for span in spans if span.name == "lock.hold"]) == 9, "the oldest are ended"


def test_what_lasts_when_tracing_stops_is_ended() -> None:
    with recipes.connect("memory://") as client:
        spans = spans_of(lambda tracer: client.lock("x").acquire() and None)
    assert [span.name for span in spans] == ["lock.acquire", "lock.hold"]


def test_it_ends_and_can_begin_again() -> None:
    registry = CollectorRegistry()
    before = len(events._hooks)
    stop = telemetry.prometheus(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        telemetry.prometheus(registry)
    assert len(events._hooks) == before + 1
    for _ in range(2):  # the second has nothing left to do
        stop()
    assert generate_latest(registry) == b""
    assert len(events._hooks) == before
    telemetry.prometheus(registry)()


def test_a_provider_is_told_of_pending_clean_ups_whenever_it_is_begun() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    store = f"memory://{uuid.uuid4().hex}"
    with recipes.connect(store) as client:
        client.lock("x").acquire().release()
        for _ in range(2):
            stop, beside = telemetry.otel_metrics(provider), telemetry.otel_metrics(provider)
            for end in (stop, beside):
                assert points_of(reader, store)["recipes.cleanups.pending", "", ""].value == 0
                end()
            assert ("recipes.cleanups.pending", "", "") not in points_of(reader, store)
    provider.shutdown()


def test_a_registry_that_has_one_of_the_names_gets_none_of_the_others() -> None:
    registry = CollectorRegistry()
    Counter("recipes_lock_lost", "Somebody else's", registry=registry)
    before = generate_latest(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        telemetry.prometheus(registry)
    assert generate_latest(registry) == before


def test_locks_have_no_label_unless_they_are_given_one() -> None:
    _, text = prometheus_text(lambda: blocking(f"memory://{uuid.uuid4().hex}"))
    assert "reports" not in text
    assert 'name="' not in text


def test_buckets_can_be_chosen() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    _, text = prometheus_text(lambda: blocking(url), buckets=(0.5, 7))
    assert 'le="7.0"' in text
    assert 'le="0.001"' not in text


def test_pending_clean_ups_are_asked_for_when_they_are_read() -> None:
    backend = FaultyBackend()
    client = Client(backend, FAST)
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    stops = [telemetry.prometheus(registry), telemetry.otel_metrics(provider)]
    store = {"store": backend.label}
    cut_off = threading.Event()

    def cut(request: Any) -> None:
        if cut_off.is_set() and type(request.op).__name__ == "Withdraw":
            raise recipes.StoreUnavailable("far away", "cut")

    def pending() -> list[float | None]:
        point = points_of(reader, backend.label)["recipes.cleanups.pending", "", ""]
        return [registry.get_sample_value("recipes_cleanups_pending", store), point.value]

    backend.before = cut
    backend.label = store["store"] = f"memory://{uuid.uuid4().hex}"  # apart from clients that others left
    grant = client.lock("x").acquire()
    assert pending() == [0, 0]
    cut_off.set()
    assert grant.release()
    assert pending() == [1, 1]
    retries = registry.get_sample_value("recipes_store_retries_total", store)
    assert retries is not None
    assert retries >= 1
    cut_off.clear()
    client.close()
    for stop in stops:
        stop()
    assert ("recipes.cleanups.pending", "", "") not in points_of(reader)
    provider.shutdown()


def test_importing_loads_neither() -> None:
    loaded = "{name.split('.')[0] for name in sys.modules} & {'opentelemetry', 'prometheus_client'}"
    code = f"import sys, recipes.telemetry; print({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180
    )
    assert done.stdout == "set()\n"
