"""A signal handler amid a transaction of the very thread that it interrupts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recipes import ReentrantCall
from recipes.stores.sqlite import transactions
from recipes.stores.sqlite.database import Database
from recipes.stores.sqlite.requests import Touch
from tests.run.test_fork import in_child
from tests.stores.sqlite.linking import join

Handle = Callable[[Callable[[], object]], None]


@pytest.fixture
def amid_joining(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    """Have a handler called once, within the next transaction that inserts a row."""
    inserting = transactions._insert
    handlers: list[Callable[[], object]] = []

    def insert(*given: Any) -> int:
        if handlers:
            os.kill(os.getpid(), signal.SIGUSR1)
        return inserting(*given)

    monkeypatch.setattr(transactions, "_insert", insert)
    before = signal.signal(signal.SIGUSR1, lambda *_: handlers.pop()())
    yield handlers.append
    signal.signal(signal.SIGUSR1, before)


def test_a_request_of_a_signal_handler_leaves_what_it_interrupted_alone(
    link: Any, amid_joining: Handle
) -> None:
    a = link("a")

    def ask() -> None:
        with pytest.raises(ReentrantCall, match="a signal handler or finalizer"):
            a.ask(Touch("a", ()), 1.0)
        refused.append(a._session._database.mine)

    refused: list[bool] = []
    amid_joining(ask)
    token = join(a, "a")
    assert refused == [True]
    assert a._session._database.mine is False
    assert a.ask(Touch("a", (("x", token),)), 1.0) == (5.0, frozenset({token}))


def test_closing_in_a_signal_handler_lets_what_it_interrupted_end(link: Any, amid_joining: Handle) -> None:
    a, b = link("a"), link("b")
    amid_joining(lambda: a._session.close(0.1))
    token = join(a, "a")
    assert a._session._database._db is None
    assert b.ask(Touch("b", ()), 1.0)
    assert join(b, "b") > token


def test_a_fork_in_a_signal_handler_leaves_the_transaction_to_the_parent(
    link: Any, amid_joining: Handle
) -> None:
    a, b = link("a"), link("b")
    main = os.getpid()

    def join_in_both() -> Any:
        """Fork amid the transaction; the child, too, returns to it."""
        read, write = os.pipe()
        amid_joining(lambda: children.append(os.fork()))
        try:
            found = str(join(a, "a"))
        except BaseException as error:
            found = str(error)
        if os.getpid() != main:
            os.write(write, found.encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            return int(found), pipe.read()

    children: list[int] = []
    token, said = join_in_both()
    os.waitpid(children[0], 0)
    assert "not authorized" in said
    assert a.ask(Touch("a", (("x", token),)), 1.0) == (5.0, frozenset({token}))
    assert join(b, "b") == token + 1
    assert in_child(lambda: a._session._database._db is None) is True


def test_an_interrupt_of_the_release_leaves_no_lock_behind(
    link: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(database: Database) -> None:
        if times:
            times.pop()
            raise KeyboardInterrupt
        real(database)

    a, times, real = link("a"), [1], Database.release
    monkeypatch.setattr(Database, "release", release)
    with pytest.raises(KeyboardInterrupt):
        a.ask(Touch("a", ()), 1.0)
    assert a._session._database.mine is False
    assert a.ask(Touch("a", ()), 1.0)
