"""Other code of the process closes the descriptor of a driver's connection, and opens its own there."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine

from recipes import _descriptors as left
from recipes.stores.sql import descriptors
from tests.strangers import Stranger

Take = Callable[[int], Stranger]


class Driven(sqlite3.Connection):
    """A driver's connection: it closes the number that it has, as C does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        near, self.far = socket.socketpair()
        self.number = near.detach()

    def fileno(self) -> int:
        """Return the number; as psycopg does, an error once it is closed."""
        if self.number < 0:
            raise OSError("it is closed")
        return self.number

    def close(self) -> None:
        """Close the number, whoever has it by now."""
        if self.number >= 0:
            os.close(self.number)
            self.number = -1
            self.far.close()
        super().close()

    def __del__(self) -> None:
        self.close()


@pytest.fixture
def engine() -> Iterator[Any]:
    def make() -> Driven:
        return sqlite3.connect(":memory:", factory=Driven, check_same_thread=False)

    one = create_engine("sqlite://", creator=make, poolclass=QueuePool, pool_size=2)
    descriptors.guard(one)
    yield one
    one.dispose()


def opened() -> list[tuple[int, str]]:
    """Return what this process has open; but for the listing itself."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append((int(link.name), str(link.readlink())))
    return sorted(found)


def driven(connection: Any) -> Driven:
    """Return the driver's connection below another."""
    found = connection.connection.driver_connection
    assert isinstance(found, Driven)
    return found


def test_another_connection_is_lent_in_place_of_one_that_was_taken(engine: Any, take: Take) -> None:
    with engine.connect() as connection:
        first = driven(connection)
        assert not descriptors.taken(first)
    take(first.number)
    assert descriptors.taken(first)
    with engine.connect() as connection:
        assert driven(connection) is not first
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    del first
    gc.collect()


def test_one_that_was_taken_is_not_closed_with_its_engine(engine: Any, take: Take) -> None:
    with engine.connect() as connection:
        take(driven(connection).number)
    engine.dispose()
    gc.collect()
    with engine.connect() as connection:
        sound = driven(connection)
    engine.dispose()
    assert sound.number < 0
    assert not descriptors.taken(sound)


def test_nobody_hangs_up_on_a_stranger(engine: Any, take: Take) -> None:
    with engine.connect() as connection:
        one = driven(connection)
        stranger = take(one.number)
        descriptors.hang_up(one)
        assert stranger.hurt() == ""


def test_who_uses_a_connection_finds_its_end(engine: Any) -> None:
    with engine.connect() as connection:
        one = driven(connection)
        before = opened()
        descriptors.hang_up(one)
        assert one.far.recv(1) == b""
        assert not descriptors.taken(one)
        assert opened() == before


@pytest.mark.parametrize("kind", ["a socket", "a file"])
def test_what_gets_the_number_of_a_connection_that_is_closed_meanwhile_is_left_alone(
    engine: Any, take: Take, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its worker closes it just as another thread hangs up, and that thread's look at the number is past."""
    with engine.connect() as connection:
        one, real, strangers = driven(connection), os.dup, []
        with monkeypatch.context() as patch, Path(__file__).open("rb") as file:

            def late(number: int) -> int:
                if kind == "a socket":
                    strangers.append(take(number))
                else:
                    os.dup2(file.fileno(), number)
                before.append(opened())
                return real(number)

            before: list[list[tuple[int, str]]] = []
            patch.setattr(os, "dup", late)
            descriptors.hang_up(one)
            assert [opened()] == before
            if kind == "a file":
                os.close(one.number)
        assert [stranger.hurt() for stranger in strangers] == [""] * len(strangers)


def test_a_connection_that_a_pool_had_before_is_known_once_it_is_lent() -> None:
    one = Driven(":memory:")
    with contextlib.closing(one):
        descriptors._check(one)
        descriptors.hang_up(one)
        assert one.far.recv(1) == b""


def test_what_is_left_stays_for_good() -> None:
    class Kept:
        def __del__(self) -> None:
            gone.append(True)

    gone: list[bool] = []
    left.leave(Kept())
    left._left.clear()
    gc.collect()
    assert gone == []  # the process ends without it
