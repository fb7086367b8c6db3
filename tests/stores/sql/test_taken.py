"""Other code of the process closes the descriptor of a driver's connection, and opens its own there."""

from __future__ import annotations

import gc
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine

from recipes import _descriptors as left
from recipes.stores.sql import blocking, descriptors
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
        blocking._hang_up(one)
        assert stranger.hurt() == ""


def test_what_is_left_stays_for_good() -> None:
    class Kept:
        def __del__(self) -> None:
            gone.append(True)

    gone: list[bool] = []
    left.leave(Kept())
    left._left.clear()
    gc.collect()
    assert gone == []  # the process ends without it
