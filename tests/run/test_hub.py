"""Many observers of one queue are one watch, and each sees the last of it; in both runtimes."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from integration.servers import eventually
from recipes import ClientClosed, StoreRefused, StoreUnavailable
from recipes._api.observing import AsyncObserving, Observing
from recipes._contract.contenders import Contender
from recipes._contract.operations import List, Listing
from recipes._contract.wakeups import Changed, Disturbed
from recipes._programs.observing import Observed, Observer, Shown, Topic, observe
from recipes._programs.steps import Wait
from recipes._run.blocking import BlockingRuntime
from recipes.client import AsyncClient, Client
from recipes.errors import SessionLost
from recipes.testing import Store
from tests.programs.stepping import Script, play, session
from tests.run.doubles import SETTINGS, Box, FaultyBackend
from tests.threads import until_ended

X = Observed("x", 100)
SO_MANY = 1000


def test_what_is_made_of_one_state_is_kept_for_few() -> None:
    """A counter that stays as it is kept each object that ever looked at its changes."""
    topic, shown = Topic(), (1, 2)
    made: list[Any] = []

    def make_for(number: int) -> Any:
        return lambda shown: made.append(number) or number

    first = make_for(0)
    assert [topic.view(shown, first) for _ in range(3)] == [0, 0, 0]
    assert made == [0]
    assert [topic.view(shown, make_for(number)) for number in range(1000)] == list(range(1000))
    assert len(topic._views[1]) <= 32


def tokens(contenders: tuple[Contender, ...]) -> list[int]:
    return [one.token for one in contenders]


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend()


@pytest.fixture
def client(backend: FaultyBackend) -> Iterator[Client]:
    until_ended("recipes-observer", 10)  # those of the test before
    with Client(backend, SETTINGS) as made:
        yield made


def observing(client: Client, observed: Observed = X) -> Observing[list[int]]:
    return Observing(client._runtime, observed, tokens)


def async_observing(client: AsyncClient, observed: Observed = X) -> AsyncObserving[list[int]]:
    return AsyncObserving(client._runtime, observed, tokens)


def left_in(observing: Any) -> list[Any]:
    """Return the notifications that it has not received."""
    _, call = observing._joined
    events: list[Any] = call.mailbox._events
    return events


def lists(backend: FaultyBackend) -> int:
    return backend.asked.count("List")


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "recipes-observer"]


def test_what_is_there_comes_first_and_then_each_change(client: Client, backend: FaultyBackend) -> None:
    with observing(client) as seen:
        assert seen.next() == []
        with client.lock("x") as grant:
            assert next(seen) == [grant.token]
        assert next(iter(seen)) == []
        assert seen.next(0.01) is None
    assert lists(backend) == 3


def test_what_all_make_of_a_state_is_made_once_and_told_if_it_is_another(client: Client) -> None:
    made: list[int] = []

    def shared(contenders: tuple[Contender, ...]) -> bool:
        made.append(len(contenders))
        return bool(contenders)

    own = [Observing(client._runtime, X, bool) for _ in range(2)]
    alike = [Observing(client._runtime, X, shared) for _ in range(SO_MANY)]
    assert {one.next() for one in (*own, *alike)} == {False}
    assert made == [0]
    with client.rwlock("x").reader, client.rwlock("x").reader:
        assert {one.next() for one in (*own, *alike)} == {True}
        assert {one.next(0) for one in alike} == {None}, "another reader makes no difference to them"
        assert len(made) <= 3
    for one in (*own, *alike):
        assert one.next() is False
        one.close()


def test_a_slow_observer_skips_and_sees_the_last(client: Client) -> None:
    with observing(client) as slow, observing(client) as quick:
        assert slow.next() == quick.next() == []
        for _ in range(5):
            with client.lock("x") as grant:
                assert quick.next() == [grant.token]
            assert quick.next() == []
        last = client.lock("x").acquire()
        assert quick.next() == [last.token]
        assert slow.next() == [last.token]
        assert slow.next(0.01) is None, "there is one notification on its way at most"


@pytest.mark.parametrize("timeout", [None, 0])
def test_what_is_passed_over_leaves_no_notification(client: Client, timeout: float | None) -> None:
    """They were kept, and in asyncio the loop did nothing else while they were read, one by one."""
    with observing(client) as slow, observing(client) as quick:
        assert slow.next() == quick.next() == []
        for _ in range(20):
            grant = client.lock("x").acquire()
            assert quick.next() == [grant.token]
            assert slow.next(timeout) == [grant.token]
            grant.release()
            assert quick.next() == []
            assert slow.next(timeout) == []
        assert len(left_in(slow)) <= 1


def test_what_is_passed_over_leaves_no_notification_in_asyncio(backend: FaultyBackend) -> None:
    async def main() -> None:
        async with AsyncClient(backend, SETTINGS) as client:
            slow, quick = async_observing(client), async_observing(client)
            assert await slow.next() == await quick.next() == []
            for _ in range(20):
                grant = await client.lock("x").acquire()
                assert await quick.next() == [grant.token]
                assert await slow.next() == [grant.token]
                await grant.release()
                assert await quick.next() == []
                assert await slow.next(0) == []
            assert len(left_in(slow)) <= 1
            for one in (slow, quick):
                one.close()

    asyncio.run(main())


def test_a_thousand_observers_are_one_watch(client: Client, backend: FaultyBackend) -> None:
    client.open()
    many = [observing(client) for _ in range(SO_MANY)]
    assert all(one.next() == [] for one in many)
    assert (lists(backend), len(backend.server.watches.refs()), len(threads())) == (1, 1, 1)
    grant = client.lock("x").acquire()
    assert all(one.next() == [grant.token] for one in many)
    assert (lists(backend), len(backend.server.watches._waiting["x"])) == (2, 1)
    for one in many[1:]:
        one.close()
    assert grant.release()
    assert many[0].next() == []
    many[0].close()
    many[0].close()
    until_ended("recipes-observer", 10)
    assert not backend.server.watches
    assert client._runtime.state.calls.keys() <= {client._runtime.state.keepalive}


def test_a_thousand_observers_are_one_watch_in_asyncio(backend: FaultyBackend) -> None:
    async def main() -> None:
        async with AsyncClient(backend, SETTINGS) as client:
            before = set(threading.enumerate())
            many = [async_observing(client) for _ in range(SO_MANY)]
            assert all([await one.next() == [] for one in many])
            waiting = [asyncio.ensure_future(one.next()) for one in many]
            await asyncio.sleep(0)
            assert (lists(backend), len(backend.server.watches._waiting["x"])) == (1, 1)
            async with client.lock("x") as grant:
                assert await asyncio.gather(*waiting) == [[grant.token]] * SO_MANY
            assert [await anext(aiter(one)) for one in many] == [[]] * SO_MANY
            assert lists(backend) == 3
            assert set(threading.enumerate()) <= before
            async with many[0] as one:
                for other in many[1:]:
                    other.close()
                assert await one.next(0.01) is None
            await asyncio.wait(client._runtime._behind)
            assert not backend.server.watches

    asyncio.run(main())


def test_each_thing_that_is_observed_has_a_watch_of_its_own(client: Client, backend: FaultyBackend) -> None:
    with observing(client) as x, observing(client, Observed("y", 100)) as y:
        assert x.next() == y.next() == []
        with client.lock("y") as grant:
            assert y.next() == [grant.token]
            assert x.next(0.01) is None
        assert len(threads()) == 2


def test_who_comes_after_the_last_has_left_is_shown_what_is_there(client: Client) -> None:
    for _ in range(3):
        with observing(client) as seen:
            assert seen.next() == []
    grant = client.lock("x").acquire()
    with observing(client) as seen:
        assert seen.next() == [grant.token]


def test_what_an_interrupt_takes_away_is_shown_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = client._runtime.run

    def struck(*given: Any) -> None:
        run(*given)
        if threading.current_thread() is threading.main_thread():  # and not the one that watches
            raise KeyboardInterrupt

    with observing(client) as seen:
        with monkeypatch.context() as patch:
            patch.setattr(client._runtime, "run", struck)
            with pytest.raises(KeyboardInterrupt):
                seen.next()
        assert seen.next(0) == []
        assert seen.next(0) is None


def test_one_that_is_dropped_observes_no_more(client: Client) -> None:
    kept, dropped = observing(client), observing(client)
    assert kept.next() == dropped.next() == []
    (topic, _) = client._runtime.hub._watched[X]
    del dropped
    gc.collect()
    assert len(topic.observers) == 1
    kept.close()


def test_one_that_is_dropped_while_others_are_notified_does_no_harm() -> None:
    topic, kept = Topic(), Box()
    gone = Observer(topic, Box())
    topic.observers[weakref.ref(gone)] = None  # its end is not noted yet
    del gone
    observer = Observer(topic, kept)
    topic.add(observer)
    topic.show(())
    assert list(kept.events) == [Shown()]


def test_a_store_out_of_reach_is_outlasted_and_left_at_once(client: Client, backend: FaultyBackend) -> None:
    client.open()
    asked = threading.Event()

    def cut(request: Any) -> None:
        if isinstance(request.op, List):
            asked.set()
            raise StoreUnavailable("memory://", "cut")

    backend.before = cut
    with observing(client) as seen:
        assert seen.next(0.05) is None
        assert asked.wait(10)
        backend.before = lambda request: None
        assert seen.next() == []
        backend.before = cut
        asked.clear()
        client._runtime.hub._watched[X][1].mailbox.post(Disturbed())
        assert asked.wait(10)
    until_ended("recipes-observer", 10)


def test_one_that_fails_fast_is_told(client: Client, backend: FaultyBackend) -> None:
    client.open()

    def cut(request: Any) -> None:
        if isinstance(request.op, List):
            raise StoreUnavailable("memory://", "cut")

    backend.before = cut
    with observing(client, Observed("x", 100, fail_fast=True)) as seen:
        with pytest.raises(StoreUnavailable):
            seen.next()
        backend.before = lambda request: None
        with observing(client, Observed("x", 100, fail_fast=True)) as anew:
            assert anew.next() == []


def test_a_refusal_is_told_to_all_and_the_next_to_come_tries_again(
    client: Client, backend: FaultyBackend
) -> None:
    client.open()

    def refuse(request: Any) -> None:
        if isinstance(request.op, List):
            raise StoreRefused("memory://", "no")

    backend.before = refuse
    one, other = observing(client), observing(client)
    for seen in (one, other, one):
        with pytest.raises(StoreRefused, match="no"):
            seen.next()
    other.close()
    backend.before = lambda request: None
    other = observing(client)
    assert other.next() == []
    one.close()
    grant = client.lock("x").acquire()
    assert other.next() == [grant.token], "one that leaves late ends nothing of those that came after"
    other.close()


def test_closing_the_client_ends_it(backend: FaultyBackend) -> None:
    client = Client(backend, SETTINGS)
    seen = observing(client)
    assert seen.next() == []
    closing = threading.Thread(target=client.close)
    closing.start()
    with pytest.raises(ClientClosed):
        next(seen)
    closing.join()
    until_ended("recipes-observer", 10)


def test_closing_the_client_ends_it_in_asyncio(backend: FaultyBackend) -> None:
    async def main() -> None:
        client = AsyncClient(backend, SETTINGS)
        seen = async_observing(client)
        assert await seen.next() == []
        waiting = asyncio.ensure_future(seen.next())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        assert not client._runtime._behind

    asyncio.run(main())


def test_a_session_that_ends_is_outlasted(client: Client, backend: FaultyBackend) -> None:
    with observing(client) as seen:
        grant = client.lock("x").acquire()
        while seen.next() != [grant.token]:
            pass
        assert client.session.id is not None
        backend.server.end(client.session.id)
        assert seen.next() == []
        again = client.lock("x").acquire(timeout=10)
        assert seen.next() == [again.token]


def test_a_child_of_the_process_is_told_and_starts_anew(client: Client) -> None:
    seen = observing(client)
    assert seen.next() == []
    hub = client._runtime.hub
    (topic, _) = hub._watched[X]
    hub.after_fork()
    with pytest.raises(SessionLost, match=r"forked.* the next call opens another"):
        seen.next()
    with observing(client) as anew:
        assert anew.next() == []
        assert seen.next() == []
        grant = client.lock("x").acquire()
        assert seen.next() == anew.next() == [grant.token]
    seen.close()
    assert topic.observers == {}


def test_a_thread_that_cannot_be_started_leaves_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(BlockingRuntime, "run_behind", refused)
        with pytest.raises(RuntimeError, match="new thread"):
            observing(client).next()
    with observing(client) as seen:
        assert seen.next() == []


# On a clock that is moved by hand.


def test_it_looks_again_in_time_whatever_is_notified() -> None:
    with Store() as store:
        client = store.connect()
        with observing(client) as seen:
            assert seen.next() == []
            store.clock.advance(0)
            store._server.watches._waiting.clear()  # a watch that was lost, and nobody knows
            grant = store.connect().lock("x").acquire()
            store.clock.advance(9.9)
            assert seen.next(0) is None
            store.clock.advance(0.1)
            assert seen.next(0) == [grant.token]


def test_it_looks_as_often_as_is_wanted_in_asyncio() -> None:
    async def main() -> None:
        async with Store() as store:
            client = store.connect_async()
            seen = async_observing(client, Observed("x", 100, every_s=2.0))
            assert await seen.next() == []
            await store.clock.advance_async(0)
            store._server.watches._waiting.clear()
            grant = await store.connect_async().lock("x").acquire()
            await store.clock.advance_async(1.9)
            assert await seen.next(0) is None
            await store.clock.advance_async(0.1)
            assert await seen.next(0) == [grant.token]
            seen.close()

    asyncio.run(main())


def test_time_does_not_jump_for_what_is_only_observed() -> None:
    with Store() as store:
        client = store.connect()
        with observing(client) as seen:
            assert seen.next() == []
            before = store.clock.now
            with store.clock.jumping():
                grant = client.lock("x").acquire()
            assert store.clock.now == before
            assert seen.next() == [grant.token]


# The program, by hand.


def stepped(**answers: Any) -> tuple[Any, Topic]:
    topic = Topic()
    left = [True] * 3
    script = Script(Attach=session(), **answers)
    return play(observe(X, topic, lambda: bool(left and left.pop())), script), topic


def test_it_lists_with_a_watch_waits_and_lists_again() -> None:
    played, topic = stepped(List=Listing(()), Wait=[Changed("x"), None, Disturbed()])
    assert played.kinds == ["Attach", "Now", "List", "Wait", "Now"] * 3
    assert played.ops[2] == List("x", 100, watch=True)
    assert topic.shown == (1, ()), "what did not change is shown once"


def test_it_lists_again_after_a_pause_at_the_earliest_whatever_wakes_it_before() -> None:
    topic, left = Topic(), [True] * 2
    times = [100.0, 100.004, 100.007, 100.01, 200.0, 300.0]
    script = Script(
        Attach=session(), List=Listing(()), Wait=[Changed("x"), Changed("x"), None, None], Now=times
    )
    played = play(observe(X, topic, lambda: bool(left and left.pop()), 0.01), script)
    waits = [op.at_most_s for op in played.ops if isinstance(op, Wait)]
    assert waits == [None, pytest.approx(0.006), pytest.approx(0.003), None]
    assert [kind for kind in played.kinds if kind in ("List", "Wait")] == [
        "List",
        *["Wait"] * 3,
        "List",
        "Wait",
    ]


def test_a_connection_that_breaks_again_and_again_is_not_hurried() -> None:
    played, _ = stepped(List=Listing(()), Wait=[Disturbed(), Disturbed(), None, Disturbed(), None])
    assert [op.at_most_s for op in played.ops if isinstance(op, Wait)] == [None, None, 0.04, None, 0.08]


@pytest.mark.parametrize("at", ["Attach", "List", "Wait"])
def test_a_session_lost_at_any_step_is_outlasted(at: str) -> None:
    answers: dict[str, Any] = {"Attach": session(), "List": Listing(()), "Wait": None}
    answers[at] = [SessionLost("gone"), answers[at]]
    topic = Topic()
    left = [True] * 2
    played = play(observe(X, topic, lambda: bool(left and left.pop())), Script(**answers))
    assert played.error is None
    assert topic.shown[0] == 1


@pytest.mark.parametrize(
    ("due_s", "every_s", "at"), [(3.0, None, 103.0), (3.0, 2.0, 102.0), (None, 2.0, 102.0)]
)
def test_it_looks_when_the_store_wants_it_to_or_its_observers_do(
    due_s: float | None, every_s: float | None, at: float
) -> None:
    topic, left = Topic(), [True]
    script = Script(Attach=session(), List=Listing((), due_s), Wait=None)
    played = play(observe(Observed("x", 1, every_s), topic, lambda: bool(left and left.pop())), script)
    assert played.only(Wait) == Wait(due_at=at)


def test_whatever_strikes_it_the_next_to_look_has_it_shown_again() -> None:
    topic, box, again = Topic(), Box(), []
    topic.restart = again.append
    observer = Observer(topic, box)
    topic.add(observer)
    topic.show(("seen",))
    assert next_of(observer, 0) == (1, ("seen",))
    played = play(observe(X, topic, lambda: True), Script(Attach=KeyboardInterrupt()))
    assert isinstance(played.error, KeyboardInterrupt)
    assert (topic.error, again, len(box.events)) == (None, [], 1)
    assert next_of(observer, 0) == (1, ("seen",))
    assert observer.look() == ("seen",)
    assert again == [topic]


def test_of_several_that_look_one_has_it_shown_again() -> None:
    class Taken(dict[str, bool]):
        """From which another thread is quicker to take."""

        def pop(self, *_: object) -> Any:
            return False

    topic, again = Topic(), []
    topic.restart = again.append
    topic._lapsed = Taken(it=True)
    topic.go_on()
    assert again == []


def test_what_cannot_be_shown_again_yet_is_tried_again_by_the_next_to_look() -> None:
    topic = Topic()

    def refused(_: Topic) -> None:
        raise RuntimeError("can't start new thread")

    topic.restart = refused
    topic.lapse()
    waits = Observer(topic, Box())
    topic.add(waits)
    for _ in range(2):
        waits._notified = False
        with pytest.raises(RuntimeError, match="new thread"):
            topic.go_on()
        assert waits._notified, "it is to try, too"
    topic.restart = lambda it: it.forget()
    topic.show(("before",))
    topic.go_on()
    topic.forget()
    assert topic.shown == (0, ())
    topic.show(("before",))
    assert topic.shown == (2, ("before",)), "as what is new: it may have been another meanwhile"


def next_of(observer: Observer, after: int) -> Any:
    return play(observer.next(after), Script()).result


def test_those_who_observe_and_wait_see_on_though_other_code_cancels_the_tasks() -> None:
    """They were told for ever that the client was closed."""

    async def watched_by_two(client: AsyncClient) -> None:
        while len(client._runtime._behind) < 2:  # noqa: ASYNC110 - nothing notifies of it
            await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.timeout(20), AsyncClient(FaultyBackend(), SETTINGS) as client:
            value, latch = client.value("v"), client.latch("l", 1)
            changes = value.changes()
            assert await changes.next() is None
            change = asyncio.ensure_future(changes.next())
            opened = asyncio.ensure_future(latch.wait())
            await watched_by_two(client)  # and the task of the latch has not begun yet
            for _ in range(3):
                behind = {*client._runtime._behind}
                for task in behind:
                    task.cancel()
                await asyncio.wait(behind)
                await watched_by_two(client)
            await value.set(b"1")
            await latch.count_down()
            assert (await change).data == b"1"
            assert await opened
            again = value.changes()
            assert (await again.next()).data == b"1"
            again.close()
            changes.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_those_who_observe_see_on_though_their_thread_was_ended(
    client: Client, backend: FaultyBackend
) -> None:
    def end(request: Any) -> None:
        if isinstance(request.op, List) and ending:
            ending.pop()
            raise SystemExit

    backend.before, ending = end, [1]
    with observing(client) as seen, observing(client) as other:
        assert seen.next(10) == other.next(10) == []
        assert ending == []
        ending.append(1)
        grant = client.lock("x").acquire()
        assert seen.next(10) == other.next(10) == [grant.token]
        assert ending == []
        assert eventually(lambda: len(threads()) == 1, 5), "those that were ended, end"
