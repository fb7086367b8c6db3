"""Locks of threads that an interrupt between their ``__enter__`` and their block does not leave locked."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import _mutex
from recipes._mutex import Mutex, new_lock, new_rlock

PACKAGE = Path(recipes.__file__).parent
NEVER_ENTERED = {
    "_run/callbacks.py": 1,
    "_run/blocking.py": 1,
    "stores/credentials.py": 1,
    "stores/etcd/blocking.py": 2,
    "stores/sql/blocking.py": 1,
    "stores/zookeeper/blocking.py": 1,
}
"""Where locks are taken by a call alone, and how many: no ``with`` statement takes one of them."""


class StruckAsItIsTaken:
    """A lock that a signal strikes as it is acquired: Python hears of it only when it looks."""

    acquire = staticmethod(ctypes.pythonapi.PyErr_SetInterrupt)

    def __init__(self) -> None:
        self.left = 0

    def release(self) -> None:
        self.left += 1

    def __exit__(self, *_: object) -> None:
        self.release()


def test_an_interrupt_as_it_was_taken_leaves_none_locked() -> None:
    lock = StruckAsItIsTaken()
    with pytest.raises(KeyboardInterrupt):
        interrupted(Mutex(lock))
    assert lock.left == 1


def interrupted(mutex: Mutex) -> None:
    with mutex:
        for _ in range(10):  # here Python looks
            pass


class HandledOnce:
    """A lock; as it is acquired for the first time, a signal handler raises."""

    def __init__(self) -> None:
        self.raises: list[type[Exception]] = [StopIteration]

    def acquire(self) -> bool:
        if self.raises:
            raise self.raises.pop()
        return True

    def release(self, *_: object) -> None:
        pass

    __exit__ = release


def test_a_handler_that_has_come_to_the_end_of_something_is_no_end_of_the_lock() -> None:
    mutex = Mutex(HandledOnce())
    with pytest.raises(StopIteration), mutex:
        pass
    with mutex as taken:
        assert taken


@pytest.fixture(params=[False, True], ids=["as_ever", "in_a_loop"])
def in_a_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Make new locks as another version of Python has them."""
    monkeypatch.setattr(_mutex, "IN_A_LOOP", request.param)
    return bool(request.param)


@pytest.mark.parametrize("new", [new_lock, new_rlock])
def test_it_excludes_others_while_it_is_entered(new: Callable[[], Any], in_a_loop: bool) -> None:
    lock = new()
    assert isinstance(lock, Mutex) is in_a_loop
    tried: list[bool] = []

    def others() -> bool:
        thread = threading.Thread(target=lambda: tried.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        return tried.pop()

    with lock as taken:
        assert taken is True
        assert not others()
    assert others()


@pytest.mark.usefixtures("in_a_loop")
def test_one_that_is_entered_again_knows_whose_it_is() -> None:
    lock = new_rlock()
    with lock, lock:
        assert lock._is_owned()
    assert not lock._is_owned()


@pytest.mark.usefixtures("in_a_loop")
def test_what_raises_in_its_block_is_raised_and_it_is_free() -> None:
    lock = new_lock()
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    assert not lock.locked()


@pytest.mark.usefixtures("in_a_loop")
def test_a_condition_waits_with_it() -> None:
    changed = threading.Condition(new_rlock())
    said: list[str] = []

    def say() -> None:
        with changed:
            said.append("now")
            changed.notify()

    with changed:
        thread = threading.Thread(target=say)
        thread.start()
        assert changed.wait_for(lambda: said, 20)
    thread.join()


@pytest.mark.usefixtures("in_a_loop")
def test_a_client_works_with_them() -> None:
    with recipes.connect("memory://") as client, client.rlock("x") as grant:
        assert grant.held


def test_the_package_takes_no_other_lock_by_with() -> None:
    found = {
        str(path.relative_to(PACKAGE)): made
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "_mutex.py" and (made := len(re.findall(r"threading\.R?Lock\(", path.read_text())))
    }
    assert found == NEVER_ENTERED
