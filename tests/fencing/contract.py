"""What every gate must show: the same suite, on each."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recipes import LockLost, StaleToken, TooWeak, testing
from recipes.fencing import Seen
from tests.fencing.doors import Door
from tests.fencing.racing import race


class Gates:
    """Fixture ``door``: a resource behind a gate, every number 0."""

    def test_a_writer_needs_a_token_that_is_not_smaller_than_any_seen(self, door: Door) -> None:
        door.write("books", 7, 70)
        door.write("books", 7, 71)
        with pytest.raises(StaleToken) as refused:
            door.write("books", 6, 60)
        assert vars(refused.value) | {"name": ""} == {"name": "", "token": 6, "seen": 7}
        assert "books" in refused.value.name
        assert door.bare_read("books") == 71
        assert door.read("books", 9) == 71
        with pytest.raises(StaleToken):
            door.write("books", 8, 80)
        assert door.bare_read("books") == 71

    def test_a_reader_needs_one_that_is_not_smaller_than_any_writers(self, door: Door) -> None:
        door.write("books", 5, 50)
        assert door.read("books", 9, shared=True) == 50
        assert door.read("books", 6, shared=True) == 50
        with pytest.raises(StaleToken) as refused:
            door.read("books", 4, shared=True)
        assert refused.value.seen == 5
        with pytest.raises(StaleToken) as refused:  # a reader behind it has been here
            door.write("books", 8, 80)
        assert refused.value.seen == 9
        door.write("books", 9, 90)
        with pytest.raises(StaleToken):
            door.read("books", 6, shared=True)

    def test_resources_are_apart(self, door: Door) -> None:
        door.write("books", 9, 90)
        door.write("pens", 1, 10)
        with pytest.raises(StaleToken):
            door.write("books", 1, 10)
        assert (door.bare_read("books"), door.bare_read("pens")) == (90, 10)

    @pytest.mark.parametrize("shared", [False, True])
    def test_large_tokens_are_exact(self, door: Door, *, shared: bool) -> None:
        for token in (0, 9, 10, 2**31, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1):
            door.write("books", token, 1)
            if token:
                with pytest.raises(StaleToken):
                    door.read("books", token - 1, shared=shared)

    def test_it_follows_the_rule(self, door: Door) -> None:
        dice = random.Random(7)
        seen, value = Seen(), 0
        for turn in range(60):
            token, kind = max(0, turn // 3 + dice.randint(-4, 4)), dice.choice(["write", "read", "share"])
            try:
                seen = seen.admit("books", token, shared=kind == "share")
            except StaleToken:
                with pytest.raises(StaleToken):
                    self.go(door, kind, token, turn)
            else:
                assert self.go(door, kind, token, turn) in (value, turn)
                value = turn if kind == "write" else value
            assert door.bare_read("books") == value

    @staticmethod
    def go(door: Door, kind: str, token: int, turn: int) -> int:
        if kind == "write":
            door.write("books", token, turn)
            return turn
        return door.read("books", token, shared=kind == "share")

    def test_it_takes_grants_and_asks_them_first(self, door: Door) -> None:
        with testing.Store() as store, store.connect() as client, store.connect() as other:
            lock, next_lock = client.rwlock("stock"), other.rwlock("stock")
            late = lock.writer.acquire()
            door.write("books", late, 1)
            with store.pause(client):
                store.clock.advance(client.session.timeout or 60)
                with next_lock.writer as current:
                    door.write("books", current, 2)
                    with pytest.raises(LockLost):
                        door.write("books", late, 3)
                    with pytest.raises(StaleToken):  # by a process that was told only the token
                        door.write("books", late.token, 3)
                    current.downgrade()
                    assert door.read("books", current, shared=True) == 2
                    with pytest.raises(ValueError, match="is shared: it lets you read"):
                        door.write("books", current, 4)
            with pytest.raises(LockLost, match="it was released"):
                door.read("books", current, shared=True)
        assert door.bare_read("books") == 2

    def test_what_is_no_token_is_refused(self, door: Door) -> None:
        unfenced: Any = SimpleNamespace(token=None, name="x", mode="exclusive", check=lambda: None)
        with pytest.raises(TooWeak, match="does not give fencing; use zookeeper:// or etcd://"):
            door.write("books", unfenced, 1)
        for bad in (-1, 2**63, True):
            with pytest.raises(ValueError, match="is no fencing token"):
                door.write("books", bad, 1)
        nothing: Any = "7"
        with pytest.raises(TypeError, match="takes a grant or its token, not str"):
            door.write("books", nothing, 1)
        assert door.bare_read("books") == 0

    def test_those_who_come_first_at_once_all_pass(self, door: Door) -> None:
        ready = threading.Barrier(3)
        doors = [type(door)(door.place) for _ in range(3)] if door.many else [door] * 3

        def come(one: Door) -> None:
            ready.wait(30)
            one.write("books", 5, 5)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(come, doors))
        for one in doors:
            one.close()
        with pytest.raises(StaleToken):
            door.write("books", 4, 4)


class Races:
    """Processes that all believe to hold, with random delays; fixture ``door`` again."""

    def test_no_acknowledged_update_is_lost_but_some_without_it(self, door: Door, tmp_path: Path) -> None:
        outcome = race(door, tmp_path)
        print(f"{type(door).__name__}: {outcome}")
        assert outcome.acknowledged > 0
        assert outcome.refused > 0
        assert outcome.lost == 0
        assert outcome.lost_without > 0
