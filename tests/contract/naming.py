"""Names are opaque: any text, and no name ever sees another's contenders (faults 35 and 36)."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from recipes import LockTimeout
from tests.contract.world import World

LATIN = "Zürich"
NAMES = (
    "x",
    "日本語のロック",
    "\u202eright to left\u200f",
    "two words",
    " ",
    "nul \0 and \x7f",
    "🔒",
    "x" * 1000,
    ".",
    "..",
    "~",
    "~session",
    "~recipe",
    "%",
    "*?[",
    "R-",
    "W-1-lock-0000000001",
    "_c_lock-0000000000",
)
DIFFERENT = (
    # Prefixes of each other.
    ("a", "ab", "abc", "a-", "a.b"),
    ("a", "a/", "a/b", "a/b/c", "/a", "a//b"),
    # What an encoding could confuse.
    ("a/b", "a%2Fb", "a%252Fb", "a%2fb"),
    ("", " ", "\u00a0", "\u200b")[1:],
    (unicodedata.normalize("NFC", LATIN), unicodedata.normalize("NFD", LATIN), "zürich"),
    ("a", "A"),
)


class Naming:
    """What a lock may be called."""

    @pytest.mark.parametrize("name", NAMES, ids=ascii)
    def test_any_text_is_a_name(self, world: World, name: str) -> None:
        a, b = world.client(), world.client()
        name = name[: world.store.longest_name]
        grant = a.acquire(name)
        assert grant.name == name
        assert len(world.store.contenders(name)) == 1
        waiting = b.queue_up(name)
        a.release(grant)
        assert b.release(waiting.result())
        assert world.store.everything() == []

    @pytest.mark.parametrize("names", DIFFERENT, ids=ascii)
    def test_different_names_are_different_locks(self, world: World, names: tuple[str, ...]) -> None:
        a, b = world.client(), world.client()
        grants = [a.acquire(name, timeout=5) for name in names]
        for name in names:
            with pytest.raises(LockTimeout):
                b.acquire(name, timeout=0)
        last = grants.pop()
        waiting = b.queue_up(last.name)
        a.release(last)
        assert waiting.result(6).name == last.name
        assert all(grant.held and a.verify(grant) for grant in grants)

    @pytest.mark.needs("has_queue")
    def test_a_client_of_a_root_inside_stands_in_no_queue(self, world: World) -> None:
        inside = world.client(url=world.store.below("app"))
        a, b = world.client(), world.client()
        assert a.api.do(a.client.locks) == {}
        grant = a.try_acquire("app")
        assert grant is not None
        waiting = b.queue_up("app")
        world.heard.wait("lock.queued", position=1)
        lock = a.client.lock("app")
        holder, waiter = a.api.do(lock.contenders)
        assert [holder.holds, waiter.holds] == [True, False]
        assert a.release(grant)
        grant = waiting.result(5)
        assert b.release(grant)
        assert a.reader.try_acquire("app").held
        assert inside.release(inside.acquire("x", timeout=5))

    @pytest.mark.parametrize(
        ("name", "error"),
        [("", ValueError), ("a\ud800", ValueError), ("é" * 400, ValueError), ("x" * 1025, ValueError)]
        + [(wrong, TypeError) for wrong in (None, b"x", 1)],
        ids=ascii,
    )
    def test_what_is_no_name_is_refused_before_anything_is_sent(
        self, world: World, name: Any, error: type[Exception]
    ) -> None:
        client = world.client(is_open=False)
        with pytest.raises(error):
            client.lock(name)
        assert client.tap.asked == []

    def test_the_longest_name(self, world: World) -> None:
        a, b, name = world.client(), world.client(), "x" * world.store.longest_name
        a.acquire(name)
        assert b.try_acquire(name) is None
        assert b.try_acquire(name[:-1]).held
