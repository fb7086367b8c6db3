"""What a signal handler raises is told from what the struck code itself raises."""

from __future__ import annotations

import functools
import inspect
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from recipes._signals import Struck, of_a_handler, of_a_wait
from recipes.stores.sockets import Conn, any_ready
from tests.alarms import alarm


class Limit(Exception):
    """What a worker raises in a task that takes too long."""


def by_name(number: int, frame: Any) -> NoReturn:
    raise TimeoutError


def by_words(*_: Any) -> NoReturn:
    raise Limit


def deeper(number: int, frame: Any) -> NoReturn:
    by_itself()


def set_back(number: int, frame: Any) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(0)


def by_itself() -> NoReturn:
    raise ConnectionResetError


class Worker:
    def on_signal(self, number: int, frame: Any) -> NoReturn:
        raise Limit

    def __call__(self, number: int, frame: Any) -> NoReturn:
        raise TimeoutError


@pytest.fixture
def handle() -> Iterator[Callable[[Any], object]]:
    """Yield what sets the handler of the signal that comes next, at once."""
    before = signal.getsignal(signal.SIGUSR1)

    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


HANDLERS = [
    by_name,
    by_words,
    deeper,
    set_back,
    Worker().on_signal,
    Worker(),
    functools.partial(by_name),
    lambda *_: by_itself(),
]


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises_is_known(handler: Any, handle: Callable[[Any], object]) -> None:
    handle(handler)
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        signal.raise_signal(signal.SIGUSR1)
    assert of_a_handler(raised.value)


def fails_in_a_handler(number: int, frame: Any) -> None:
    with pytest.raises(ConnectionResetError) as raised:
        by_itself()
    assert not of_a_handler(raised.value)


def test_what_the_struck_code_raises_is_its_own(handle: Callable[[Any], object]) -> None:
    with pytest.raises(ConnectionResetError) as raised:
        by_itself()
    assert not of_a_handler(raised.value)
    assert of_a_wait(raised.value) is raised.value
    handle(fails_in_a_handler)
    signal.raise_signal(signal.SIGUSR1)


def looks_at_its_caller() -> NoReturn:
    caller = inspect.currentframe().f_back  # type: ignore[union-attr]
    raise ValueError(caller)


def test_what_looks_at_its_caller_is_no_handler() -> None:
    """As filters of logging do."""
    with pytest.raises(ValueError, match="frame") as raised:
        looks_at_its_caller()
    assert not of_a_handler(raised.value)


def test_no_other_thread_is_ever_struck() -> None:
    found = []

    def work() -> None:
        try:
            by_name(signal.SIGUSR1, None)
        except TimeoutError as error:
            found.append(of_a_handler(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


WAITS = {
    "receive": lambda conn: conn.receive(time.monotonic() + 60),
    "any_ready": lambda conn: [any_ready([conn.sock.fileno()], [], 60) for _ in range(600)],
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("raised", [TimeoutError, Limit])
def test_a_wait_that_a_handler_ends_has_not_failed(
    wait: Callable[[Conn], Any], raised: type[BaseException]
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    begun = time.monotonic()
    with ours, theirs, pytest.raises(Struck) as struck, alarm(raised, lambda: time.monotonic() > begun + 0.2):
        wait(Conn(ours))
    assert isinstance(struck.value.raised, raised)


def test_a_wait_that_fails_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Poll:
        def register(self, *_: Any) -> None:
            pass

        def poll(self, _: int) -> NoReturn:
            raise OSError("out of memory")

    monkeypatch.setattr(select, "poll", Poll)
    with pytest.raises(OSError, match="out of memory"):
        any_ready([1], [], 1)
