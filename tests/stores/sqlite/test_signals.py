"""A signal handler amid a transaction of the very thread that it interrupts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recipes import ReentrantCall
from recipes._contract.operations import Entry, Renewal
from recipes.stores.sqlite.database import Database
from recipes.stores.sqlite.transactions import Transaction
from tests.run.test_fork import in_child
from tests.stores.sqlite.connecting import join, renew

Handle = Callable[[Callable[[], object]], None]


@pytest.fixture
def amid_joining(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    """Have a handler called once, within the next transaction that inserts a row."""
    placing = Transaction._place
    handlers: list[Callable[[], object]] = []

    def entry(*given: Any) -> Entry:
        if handlers:
            os.kill(os.getpid(), signal.SIGUSR1)
        return placing(*given)

    monkeypatch.setattr(Transaction, "_place", entry)
    before = signal.signal(signal.SIGUSR1, lambda *_: handlers.pop()())
    yield handlers.append
    signal.signal(signal.SIGUSR1, before)


def test_a_request_of_a_signal_handler_leaves_what_it_interrupted_alone(
    connection: Any, amid_joining: Handle
) -> None:
    a = connection("a")

    def ask() -> None:
        with pytest.raises(ReentrantCall, match="a signal handler or finalizer"):
            a.ask(renew("a"), 1.0)
        refused.append(a.session._database.mine)

    refused: list[bool] = []
    amid_joining(ask)
    token = join(a, "a")
    assert refused == [True]
    assert a.session._database.mine is False
    assert a.ask(renew("a", token), 1.0) == Renewal(5.0)


def test_closing_in_a_signal_handler_lets_what_it_interrupted_end(
    connection: Any, amid_joining: Handle
) -> None:
    a, b = connection("a"), connection("b")
    amid_joining(lambda: a.session.close(0.1))
    token = join(a, "a")
    assert a.session._database._db is None
    assert b.ask(renew("b"), 1.0)
    assert join(b, "b") > token


def test_a_fork_in_a_signal_handler_leaves_the_transaction_to_the_parent(
    connection: Any, amid_joining: Handle
) -> None:
    a, b = connection("a"), connection("b")
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
    assert a.ask(renew("a", token), 1.0) == Renewal(5.0)
    assert join(b, "b") == token + 1
    assert in_child(lambda: a.session._database._db is None) is True


def test_an_interrupt_of_the_release_leaves_no_lock_behind(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(database: Database) -> None:
        if times:
            times.pop()
            raise KeyboardInterrupt
        real(database)

    a, times, real = connection("a"), [1], Database.release
    monkeypatch.setattr(Database, "release", release)
    with pytest.raises(KeyboardInterrupt):
        a.ask(renew("a"), 1.0)
    assert a.session._database.mine is False
    assert a.ask(renew("a"), 1.0)
