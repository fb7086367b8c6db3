"""Values, counters and latches: what all share, each write done once, and what watches see of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import recipes
from recipes import (
    LatchMismatch,
    LockLost,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
    Versioned,
)
from tests.contract.tap import RECEIVE, Act, Asked
from tests.contract.world import LONG, SHORT, Party, World, until

NAME = "config"
SOON_S = 10.0
MOST = 1_000_000
EVERY_BYTE = bytes(range(256))
LOST = (Act.LOSE_REQUEST, Act.LOSE_REPLY, Act.LAND_LATE)
WRITES = ("Put", "/kv/txn", "Multi", "put")
"""The requests that write a value, on one store or another."""


def writes(asked: Asked) -> bool:
    """Whether a caller's step writes a value."""
    return not asked.behind and any(part in WRITES for part in asked.parts)


def writes_or_settles(asked: Asked) -> bool:
    """Whether a step writes a value, or settles such a write, also behind the caller."""
    return any(part in WRITES for part in asked.parts)


def get(party: Party, name: str = NAME) -> Versioned | None:
    found: Versioned | None = party.api.do(party.client.value(name).get)
    return found


def data(party: Party, name: str = NAME) -> bytes | None:
    found = get(party, name)
    return None if found is None else found.data


def put(party: Party, what: bytes, name: str = NAME) -> None:
    value = party.client.value(name)
    party.api.do(lambda: value.set(what))


def put_if(party: Party, what: bytes, version: int) -> bool:
    value = party.client.value(NAME)
    done: bool = party.api.do(lambda: value.set_if(what, version))
    return done


def delete(party: Party, version: int | None = None) -> bool:
    value = party.client.value(NAME)
    done: bool = party.api.do(lambda: value.delete(version))
    return done


def add(party: Party, n: int = 1, **options: Any) -> int:
    counter = party.client.counter(NAME, **options)
    total: int = party.api.do(lambda: counter.add(n))
    return total


def total(party: Party) -> int:
    found: int = party.api.do(party.client.counter(NAME).get)
    return found


def count_down(party: Party, count: int, n: int = 1) -> int:
    latch = party.client.latch(NAME, count)
    left: int = party.api.do(lambda: latch.count_down(n))
    return left


class Watcher:
    """One that watches the changes of something."""

    def __init__(self, party: Party, what: Any) -> None:
        self._api = party.api
        self._observing = what.changes()

    def next(self, within_s: float = SOON_S) -> Any:
        """Return what is new, or "nothing"."""
        return self._api.do(lambda: self._observing.next(within_s, "nothing"))

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Wait until it sees this, and return it; what is on the way may be skipped or not."""
        while not wanted(found := self.next()):
            assert found != "nothing", "it never came"
        return found

    def close(self) -> None:
        self._api.do(self._observing.close)


class Values:
    """`Client.value`: bytes that stay, with versions that rise."""

    def test_what_was_written_last_is_read_by_all(self, world: World) -> None:
        a, b = world.client(), world.client()
        assert get(a) is None
        put(a, b"1")
        first = get(b)
        assert first is not None
        assert first.data == b"1"
        put(b, b"2")
        second = get(a)
        assert second is not None
        assert (second.data, get(b)) == (b"2", second)
        assert second.version > first.version > 0

    def test_it_outlives_the_client_that_wrote_it(self, world: World) -> None:
        a = world.client()
        put(a, b"kept")
        a.close()
        assert data(world.client()) == b"kept"

    def test_it_is_written_if_it_has_that_version_and_not_otherwise(self, world: World) -> None:
        a, b = world.client(), world.client()
        assert put_if(a, b"1", 0)
        first = get(a)
        assert first is not None
        assert not put_if(b, b"2", 0)
        assert put_if(b, b"2", first.version)
        assert not put_if(a, b"3", first.version)
        assert not put_if(a, b"3", first.version + 10**6)
        assert data(a) == b"2"

    def test_no_value_has_a_version_that_no_store_counts_to(self, world: World) -> None:
        a = world.client()
        put(a, b"1")
        assert not put_if(a, b"2", 2**200)
        assert not delete(a, 2**200)
        assert data(a) == b"1"

    def test_versions_rise_over_deletions(self, world: World) -> None:
        a, b = world.client(), world.client()
        seen = 0
        for _ in range(3):
            assert put_if(b, b"x", 0)
            written = get(a)
            assert written is not None
            assert written.version > seen
            seen = written.version
            assert delete(a)
            assert get(b) is None
            assert not put_if(a, b"y", seen)

    def test_it_is_deleted_once(self, world: World) -> None:
        a, b = world.client(), world.client()
        assert not delete(a)
        put(a, b"1")
        first = get(a)
        assert first is not None
        put(b, b"2")
        assert not delete(a, first.version)
        assert data(a) == b"2"
        second = get(a)
        assert second is not None
        assert delete(a, second.version)
        assert not delete(a, second.version)
        assert not delete(b)
        assert get(a) is None

    @pytest.mark.parametrize("what", [b"", b"\0", EVERY_BYTE, b"granted\n{}", b"x" * MOST], ids=len)
    def test_what_is_read_is_what_was_written(self, world: World, what: bytes) -> None:
        a, b = world.client(), world.client()
        watcher = Watcher(b, b.client.value(NAME))
        assert watcher.next() is None
        put(a, what)
        seen = watcher.next()
        assert seen is not None
        assert seen.data == what
        assert get(b) == seen
        assert put_if(b, what, seen.version)
        assert data(a) == what
        watcher.close()

    @pytest.mark.parametrize(
        ("what", "error"),
        [
            (b"x" * (MOST + 1), ValueError),
            ("text", TypeError),
            (None, TypeError),
            (bytearray(b"x"), TypeError),
        ],
        ids=["too long", "text", "None", "bytearray"],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_sent(
        self, world: World, what: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        with a.tap.counting() as asked:
            with pytest.raises(error):
                put(a, what)
            with pytest.raises(error):
                put_if(a, what, 0)
        assert asked == []

    @pytest.mark.parametrize(
        ("version", "error"), [(-1, ValueError), (1.0, TypeError), ("1", TypeError), (True, TypeError)]
    )
    def test_no_version_is_refused_before_anything_is_sent(
        self, world: World, version: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        with a.tap.counting() as asked:
            with pytest.raises(error):
                put_if(a, b"", version)
            with pytest.raises(error):
                delete(a, version)
        assert asked == []

    def test_names_are_apart_and_so_are_recipes(self, world: World) -> None:
        a = world.client()
        names = ["a", "a/b", "a%2Fb", "~a", "A", "é", "..", "a b"]
        for name in names:
            put(a, name.encode(), name)
        assert [data(a, name) for name in names] == [name.encode() for name in names]
        assert a.api.do(a.client.counter("a").get) == 0
        grant = a.acquire("a")
        assert data(a, "a") == b"a"
        a.release(grant)

    @pytest.mark.parametrize("act", LOST)
    def test_a_write_whose_answer_was_lost_is_done_once(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for what in (b"first", b"second"):
            fault = a.tap.fail(act, matches=writes)
            put(a, what)
            assert fault.fired.is_set()
            seen = get(b)
            assert seen is not None
            assert seen.data == what
            a.tap.land()
            assert get(b) == seen

    @pytest.mark.parametrize("act", LOST)
    def test_a_write_on_a_condition_whose_answer_was_lost_says_what_became_of_it(
        self, world: World, act: Act
    ) -> None:
        a, b = world.client(), world.client()
        put(a, b"0")
        for n in range(3):
            before = get(a)
            assert before is not None
            a.tap.fail(act, matches=writes)
            assert put_if(a, b"%d" % n, before.version)
            seen = get(b)
            a.tap.land()
            assert get(b) == seen
            a.tap.fail(act, matches=writes)
            assert not put_if(a, b"never", before.version)
            a.tap.land()
            assert get(b) == seen

    def test_a_write_that_lands_late_changes_nothing_of_what_came_after(self, world: World) -> None:
        a, b = world.client(), world.client()
        a.tap.fail(Act.LAND_LATE, matches=writes)
        put(a, b"a")
        put(b, b"b")
        a.tap.land()
        assert data(b) == b"b"

    def test_one_that_was_refused_never_lands_not_even_when_its_condition_comes_true(
        self, world: World
    ) -> None:
        a, b = world.client(), world.client()
        put(b, b"there")
        a.tap.fail(Act.LAND_LATE, matches=writes)
        assert not put_if(a, b"late", 0)
        assert delete(b)
        a.tap.land()
        assert get(b) is None

    @pytest.mark.parametrize("act", [Act.INTERRUPT_BEFORE, Act.INTERRUPT_AFTER])
    def test_an_interrupt_leaves_nothing_that_lands_later(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        put(a, b"before")
        a.tap.fail(act, matches=writes)
        value = a.client.value(NAME)
        with pytest.raises(a.api.interrupts):
            a.api.do(lambda: value.set(b"after"))
        assert a.wait_clean()
        seen = get(b)
        assert seen is not None
        assert seen.data in (b"before", b"after")
        a.tap.land()
        put(a, b"last")
        assert data(b) == b"last"

    def test_a_store_that_is_silent_leaves_it_unknown_and_nothing_lands_later(self, world: World) -> None:
        a, b = world.client(request_timeout=2.0, **LONG), world.client()
        put(a, b"before")
        a.tap.before = lambda asked: a.tap.fail(Act.LAND_LATE, matches=writes)  # each of them
        with pytest.raises(OutcomeUnknown, match="value 'config'") as unknown:
            put(a, b"late")
        assert (unknown.value.recipe, unknown.value.name) == ("value", NAME)
        a.tap.before = lambda asked: None
        assert a.wait_clean()
        put(b, b"last")
        a.tap.land()
        assert data(b) == b"last"
        world.heard.wait("value.unknown", name=NAME)

    def test_a_read_is_never_unknown(self, world: World) -> None:
        a = world.client(request_timeout=2.0, **LONG)  # in which a database can also be connected to
        a.tap.silence()
        with pytest.raises(StoreUnavailable):
            get(a)
        a.tap.heal()

    def test_a_session_that_ends_before_the_answer_leaves_it_unknown(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        put(a, b"before")
        already = len(a.tap.asked)
        a.tap.fail(Act.LOSE_REPLY, matches=writes)
        ended = threading.Event()

        def end_once(asked: Asked) -> None:
            if writes(asked) and any(writes(one) for one in a.tap.asked[already:]) and not ended.is_set():
                ended.set()
                world.store.end_session(a.client)

        a.tap.before = end_once
        known = world.store.sessions_end_at_renewal
        with contextlib.nullcontext() if known else pytest.raises(OutcomeUnknown):
            put(a, b"after")
        a.tap.before = lambda asked: None
        assert ended.is_set()
        assert data(b) == b"after"
        put(a, b"again")
        assert data(b) == b"again"

    def test_a_session_that_ended_before_the_write_is_replaced_and_nobody_notices(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        put(a, b"before")
        world.store.end_session(a.client)
        try:
            put(a, b"after")
        except OutcomeUnknown:  # where the connection cannot tell: it counts as sent
            put(a, b"after")
        assert data(b) == b"after"

    def test_receipts_go_with_their_session(self, world: World) -> None:
        a, b = world.client(), world.client()
        for name in ("x", "y", "x"):
            put(a, b"", name)
        put(b, b"", "x")
        assert len(world.store.receipts()) == 3
        a.close()
        assert until(lambda: len(world.store.receipts()) == 1, SOON_S)
        b.close()
        assert until(lambda: not world.store.receipts(), SOON_S)

    def test_it_says_what_it_does(self, world: World) -> None:
        a = world.client()
        put(a, b"1")
        written = get(a)
        assert written is not None
        delete(a)
        (said,) = world.heard.of("value.written")
        assert (said.name, said.recipe, said.version) == (NAME, "value", written.version)
        assert len(world.heard.of("value.deleted", name=NAME)) == 1
        assert NAME in repr(a.client.value(NAME))
        assert a.client.value(NAME).name == NAME


class WatchedValues:
    """`Value.changes`: the value now, and after every change, and never an older one."""

    def test_it_shows_what_is_there_and_then_every_change(self, world: World) -> None:
        a, b = world.client(), world.client()
        put(a, b"0")
        watcher = Watcher(b, b.client.value(NAME))
        assert watcher.next().data == b"0"
        for n in range(1, 4):
            put(a, b"%d" % n)
            assert watcher.next() == get(a)
        assert delete(a)
        assert watcher.next() is None
        put(b, b"its own")
        assert watcher.next().data == b"its own"
        assert watcher.next(0.1) == "nothing"
        watcher.close()

    def test_it_sees_the_last_of_many_and_none_twice(self, world: World) -> None:
        a, b = world.client(), world.client()
        watcher = Watcher(b, b.client.counter(NAME))
        seen = [watcher.next()]
        running = a.api.spawn(lambda: [add(a) for _ in range(30)])
        while seen[-1] != 30:
            seen.append(watcher.next())
            assert seen[-1] != "nothing"
        running.result()
        assert seen == sorted(set(seen))
        watcher.close()

    def test_a_thousand_watch_by_one_watch(self, world: World) -> None:
        a, b = world.client(), world.client()
        put(a, b"0")
        value = b.client.value(NAME)
        before = len(b.tap.asked)
        watchers = [Watcher(b, value) for _ in range(1000 if not b.api.is_async else 200)]
        assert {watcher.next().data for watcher in watchers} == {b"0"}
        put(a, b"1")
        assert {watcher.next().data for watcher in watchers} == {b"1"}
        asked = [asked for asked in b.tap.asked[before:] if asked.parts != (RECEIVE,)]
        assert len(asked) < 20
        for watcher in watchers:
            watcher.close()

    def test_it_outlasts_a_lost_session(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        put(a, b"0")
        watcher = Watcher(b, b.client.value(NAME))
        assert watcher.next().data == b"0"
        world.store.end_session(b.client)
        put(a, b"1")
        watcher.until(lambda seen: seen is not None and seen.data == b"1")
        watcher.close()

    def test_a_store_that_was_silent_is_watched_again(self, world: World) -> None:
        a, b = world.client(), world.client(frail=True, **LONG)
        put(a, b"0")
        watcher = Watcher(b, b.client.value(NAME))
        assert watcher.next().data == b"0"
        b.line.silence()
        put(a, b"1")
        b.line.heal()
        watcher.until(lambda seen: seen is not None and seen.data == b"1")
        watcher.close()


class Counters:
    """`Client.counter`: every addition counts once."""

    def test_additions_of_all_come_together(self, world: World) -> None:
        a, b = world.client(), world.client()
        assert total(a) == 0
        assert add(a) == 1
        assert add(b, 10) == 11
        assert add(a, -20) == -9
        assert add(b, 0) == -9
        assert total(a) == total(b) == -9

    def test_it_starts_where_it_is_told_to(self, world: World) -> None:
        a = world.client()
        counter = a.client.counter(NAME, 5)
        assert a.api.do(counter.get) == 5
        assert add(a, start=5) == 6
        assert total(a) == 6

    def test_it_is_replaced_if_it_is_what_is_expected(self, world: World) -> None:
        a, b = world.client(), world.client()
        mine, other = a.client.counter(NAME), b.client.counter(NAME)
        assert a.api.do(lambda: mine.set_if(7, 0))
        assert not b.api.do(lambda: other.set_if(8, 0))
        assert b.api.do(lambda: other.set_if(9, 7))
        assert not a.api.do(lambda: mine.set_if(1, 7))  # which it remembers, and is no more
        assert a.api.do(lambda: mine.set_if(1, 9))
        assert total(b) == 1

    def test_large_numbers_fit_and_too_large_ones_are_refused(self, world: World) -> None:
        a = world.client()
        most = 10**4300 - 1
        assert add(a, most) == most
        assert total(a) == most
        with pytest.raises(ValueError, match="4300 digits"):
            add(a, 1)
        assert add(a, -most) == 0
        with a.tap.counting() as asked:
            for wrong, error in (
                (most + 1, ValueError),
                (1.5, TypeError),
                ("1", TypeError),
                (True, TypeError),
            ):
                with pytest.raises(error):
                    add(a, wrong)  # type: ignore[arg-type]
                with pytest.raises(error):
                    a.client.counter(NAME, wrong)
        assert asked == []

    def test_what_is_no_number_is_not_counted_on(self, world: World) -> None:
        a = world.client()
        foreign = a.client.value(NAME)
        foreign._key = a.client.counter(NAME)._key
        for what in (b"many", b"", b"1" * 4301, b"-" + b"1" * 4301):
            a.api.do(lambda what=what: foreign.set(what))
            with pytest.raises(StoreRefused, match="no whole number"):
                total(a)
            with pytest.raises(StoreRefused, match="no whole number"):
                add(a)

    @pytest.mark.parametrize("act", [*LOST, Act.LOSE_LAST_REPLY, Act.LOSE_LAST_REQUESTS])
    def test_a_lost_answer_never_counts_twice(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for n in range(1, 6):
            a.tap.fail(act, matches=writes)
            assert add(a) == 2 * n - 1
            a.tap.land()
            assert add(b) == 2 * n
        assert total(a) == 10

    @pytest.mark.filterwarnings("ignore:a blocking client of:RuntimeWarning")  # the other's, in this loop
    def test_a_lost_answer_with_writes_of_others_in_between_never_counts_twice(self, world: World) -> None:
        a = world.client()
        other = recipes.connect(
            world.store.url(), **world.store.options
        )  # blocking, also amid a step of a task
        theirs = other.counter(NAME)
        add(a)
        for act in (Act.LOSE_REPLY, Act.LOSE_REQUEST, Act.LAND_LATE):
            before = theirs.get()
            a.tap.fail(act, matches=writes)
            seen = 0

            def between(asked: Asked) -> None:
                nonlocal seen
                seen += writes(asked)
                if seen == 2:  # the write is asked again
                    seen += 1
                    theirs.add()

            a.tap.before = between
            add(a)
            a.tap.before = lambda asked: None
            a.tap.land()
            assert theirs.get() == before + 2
        other.close()

    def test_many_threads_and_clients_lose_nothing(self, world: World) -> None:
        parties = [world.client() for _ in range(3)]
        running = [
            party.api.spawn(lambda party=party: [add(party) for _ in range(10)])
            for party in parties
            for _ in range(2)
        ]
        sums = [one for run in running for one in run.result(60)]
        assert sorted(sums) == list(range(1, 61))
        assert total(parties[0]) == 60

    def test_many_threads_of_one_client_with_lost_answers_lose_nothing(self, world: World) -> None:
        a = world.client()
        add(a)
        for n in (2, 4, 7, 9, 12, 15):
            a.tap.fail(Act.LOSE_REPLY if n % 2 else Act.LAND_LATE, n, matches=writes)
        running = [a.api.spawn(lambda: [add(a) for _ in range(5)]) for _ in range(4)]
        sums = [one for run in running for one in run.result(60)]
        a.tap.land()
        assert sorted(sums) == list(range(2, 22))
        assert total(a) == 21

    def test_it_says_what_it_does(self, world: World) -> None:
        a = world.client()
        add(a)
        counter = a.client.counter(NAME)
        a.api.do(lambda: counter.set_if(3, 1))
        assert world.heard.names(name=NAME) == ["counter.added", "counter.written"]


class Latches:
    """`Client.latch`: closed until counted down, then open for good."""

    def test_it_opens_when_it_was_counted_down(self, world: World) -> None:
        a, b = world.client(), world.client()
        latch = b.client.latch(NAME, 3)
        assert b.api.do(latch.left) == 3
        waiting = b.api.start(lambda: latch.wait(20))
        assert count_down(a, 3) == 2
        assert b.api.do(latch.left) == 2
        assert not b.api.do(lambda: latch.wait(0))
        assert count_down(b, 3, 2) == 0
        assert waiting.result() is True
        assert a.api.do(a.client.latch(NAME, 3).left) == 0
        assert b.api.do(latch.wait) is True
        assert b.api.do(lambda: latch.wait(0)) is True
        assert count_down(a, 3, 5) == 0

    def test_it_is_not_counted_below_zero(self, world: World) -> None:
        a, b = world.client(), world.client()
        assert count_down(a, 2, 5) == 0
        assert count_down(b, 2) == 0
        assert b.api.do(b.client.latch(NAME, 2).left) == 0

    def test_another_count_is_an_error(self, world: World) -> None:
        a, b = world.client(), world.client()
        other = b.client.latch(NAME, 4)
        assert not b.api.do(lambda: other.wait(0.1))
        count_down(a, 3)
        for call in (other.count_down, other.left, other.wait):
            with pytest.raises(LatchMismatch, match="3 times, not 4") as mismatch:
                b.api.do(call)
            assert (mismatch.value.name, mismatch.value.count, mismatch.value.stored) == (NAME, 4, 3)

    def test_what_no_latch_writes_is_refused(self, world: World) -> None:
        a = world.client()
        foreign = a.client.value(NAME)
        foreign._key = a.client.latch(NAME, 1)._key
        for what in (b"1", b"1 x", b"", b"1 1 1", b"1 " + b"1" * 5000):
            a.api.do(lambda what=what: foreign.set(what))
            with pytest.raises(StoreRefused, match="no latch"):
                count_down(a, 1)

    @pytest.mark.parametrize(
        ("number", "error"), [(0, ValueError), (-1, ValueError), (10**9 + 1, ValueError), (1.0, TypeError)]
    )
    def test_numbers_that_do_not_fit_are_refused(
        self, world: World, number: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        with a.tap.counting() as asked:
            with pytest.raises(error):
                a.client.latch(NAME, number)
            with pytest.raises(error):
                count_down(a, 1, number)
        assert asked == []

    @pytest.mark.parametrize("act", LOST)
    def test_a_lost_answer_never_counts_twice(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for left in (3, 2, 1, 0):
            a.tap.fail(act, matches=writes)
            assert count_down(a, 4) == left
            a.tap.land()
        assert b.api.do(b.client.latch(NAME, 4).left) == 0

    def test_many_wait_by_one_watch(self, world: World) -> None:
        a, b = world.client(), world.client()
        latch = b.client.latch(NAME, 1)
        waiting = [b.api.start(lambda: latch.wait(20)) for _ in range(20)]
        assert count_down(a, 1) == 0
        assert all(one.result() for one in waiting)


class Guarded:
    """`Grant.guarding`: a write that is done only if the grant stands, in one step."""

    def test_it_is_written_while_the_grant_is_held(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"1"))
        seen = get(b)
        assert seen is not None
        assert a.api.do(lambda: value.set_if(b"2", seen.version))
        assert not a.api.do(lambda: value.set_if(b"3", seen.version))
        assert data(b) == b"2"
        assert a.api.do(value.delete)
        counter = grant.guarding(a.client.counter(NAME))
        assert a.api.do(counter.add) == 1
        latch = grant.guarding(a.client.latch(NAME, 1))
        assert a.api.do(latch.count_down) == 0
        a.release(grant)

    def test_it_is_not_written_once_the_grant_was_released(self, world: World) -> None:
        a = world.client()
        grant = a.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"1"))
        a.release(grant)
        with pytest.raises(LockLost, match="'x'"):
            a.api.do(lambda: value.set(b"2"))
        assert data(a) == b"1"

    def test_what_there_was_nothing_to_write_for_is_lost_as_well(self, world: World) -> None:
        """Otherwise a former holder takes its answer for that of one that holds."""
        a = world.client()
        grant = a.acquire("x")
        value, counter = a.client.value(NAME), a.client.counter(NAME)
        latch = a.client.latch(NAME, 1)
        acts: list[Act] = [
            lambda party: party.api.do(grant.guarding(value).delete),
            lambda party: party.api.do(lambda: grant.guarding(counter).set_if(5, 4)),
        ]
        assert [act(a) for act in acts] == [False, False]
        assert a.api.do(latch.count_down) == 0
        acts.append(lambda party: party.api.do(grant.guarding(latch).count_down))
        assert acts[-1](a) == 0
        a.release(grant)
        for act in acts:
            with pytest.raises(LockLost, match="'x'"):
                act(a)

    def test_it_is_not_written_once_the_contender_is_gone(self, world: World) -> None:
        a = world.client(**LONG)
        grant = a.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        (contender,) = world.store.contenders("x")
        world.store.remove(contender)
        with pytest.raises(LockLost):
            a.api.do(lambda: value.set(b"1"))
        assert get(a) is None
        assert not grant.held
        assert grant.lost_reason is not None

    def test_it_is_not_written_once_the_session_has_ended(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        grant = a.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        world.store.end_session(a.client)
        with pytest.raises((LockLost, OutcomeUnknown)):
            a.api.do(lambda: value.set(b"1"))
        assert get(b) is None

    def test_one_that_lands_after_the_next_holder_came_writes_nothing(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        a.tap.fail(Act.LAND_LATE, matches=writes)
        a.api.do(lambda: value.set(b"1"))
        a.release(grant)
        next_one = b.acquire("x")
        guarded = next_one.guarding(b.client.value(NAME))
        b.api.do(lambda: guarded.set(b"2"))
        a.tap.land()
        assert data(b) == b"2"
        b.release(next_one)

    def test_a_writer_that_downgraded_writes_no_more(self, world: World) -> None:
        a = world.client()
        grant = a.writer.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"1"))
        a.downgrade(grant)
        with pytest.raises(LockLost, match="it was downgraded"):
            a.api.do(lambda: value.set(b"2"))
        assert data(a) == b"1"
        a.release(grant)

    def test_one_that_was_given_up_before_a_downgrade_does_not_land_behind_it(self, world: World) -> None:
        a, b = world.client(request_timeout=2.0, **LONG), world.client()
        grant = a.writer.acquire("x")
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"alone"))

        def hold_up(matches: Callable[[Asked], bool]) -> None:
            """Have each request of this kind arrive later."""
            late = partial(a.tap.fail, Act.LAND_LATE, matches=matches)
            a.tap.before = lambda asked: late() if matches(asked) else None

        hold_up(writes_or_settles)
        with pytest.raises(OutcomeUnknown):
            a.api.do(lambda: value.set(b"late"))
        hold_up(lambda asked: asked.behind and writes_or_settles(asked))
        a.downgrade(grant)
        a.tap.before = lambda asked: None
        a.tap.land()
        assert a.wait_clean()
        assert data(b) == b"alone"
        a.release(grant)

    def test_a_guard_made_after_a_downgrade_writes_beside_readers(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        a.downgrade(grant)
        reading = b.reader.acquire("x")
        for guard in (grant, reading):
            value = guard.guarding((a if guard is grant else b).client.value(NAME))
            (a if guard is grant else b).api.do(lambda value=value: value.set(b"1"))
        a.release(grant)
        b.release(reading)

    def test_all_parts_of_a_multi_lock_guard(self, world: World) -> None:
        a = world.client(**LONG)
        both = a.client.multilock(a.client.lock("x"), a.client.lock("y"))
        grant = a.api.do(both.acquire)
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"1"))
        (contender,) = world.store.contenders("y")
        world.store.remove(contender)
        with pytest.raises(LockLost):
            a.api.do(lambda: value.set(b"2"))
        assert data(a) == b"1"
        a.release(grant)

    @pytest.mark.parametrize("released", ["x", "y"])
    def test_two_grants_guard_together(self, world: World, released: str) -> None:
        a = world.client()
        grants = {name: a.acquire(name) for name in ("x", "y")}
        value = grants["y"].guarding(grants["x"].guarding(a.client.value(NAME)))
        a.api.do(lambda: value.set(b"1"))
        a.release(grants.pop(released))
        with pytest.raises(LockLost, match=f"'{released}'"):
            a.api.do(lambda: value.set(b"2"))
        assert data(a) == b"1"
        for grant in grants.values():
            a.release(grant)

    @pytest.mark.parametrize("noun", ["semaphore", "election", "group"])
    def test_whatever_is_held_guards(self, world: World, noun: str) -> None:
        a = world.client()
        acquire = {
            "semaphore": lambda: a.client.semaphore("x", 2).acquire(),
            "election": lambda: a.client.election("x").campaign(),
            "group": lambda: a.client.group("x").join(),
        }[noun]
        grant = a.api.do(acquire)
        value = grant.guarding(a.client.value(NAME))
        a.api.do(lambda: value.set(b"1"))
        a.release(grant)
        with pytest.raises(LockLost, match="'x'"):
            a.api.do(lambda: value.set(b"2"))
        assert data(a) == b"1"

    def test_what_is_of_another_client_or_no_value_is_refused(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        with pytest.raises(ValueError, match="own client"):
            grant.guarding(b.client.value(NAME))
        with pytest.raises(TypeError, match=r"not (Async)?Lock"):
            grant.guarding(a.client.lock("y"))
        a.release(grant)
