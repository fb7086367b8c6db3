"""A contender of this package that says when it was where: ``python -m bench.marked URL START END HOLD``.

It comes again and again from START to END and holds for HOLD (nanoseconds of CLOCK_MONOTONIC). What it
says, as JSON, are pairs of an instant and a word: ``release`` was called, the store was ``asked`` and has
``answered``, the mailbox was ``told`` of an event, it ``got`` the lock.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import recipes
from bench.takers import SESSION_S
from recipes._run.blocking import ThreadMailbox
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.zookeeper.blocking import KazooConnection

WARM_CYCLES = 50
now = time.monotonic_ns
Marks = list[tuple[int, str]]


def contend(url: str, start: int, end: int, hold_ns: int) -> Marks:
    """Acquire, hold and release, again and again."""
    marks: Marks = []
    with recipes.connect(url, session_timeout=SESSION_S) as client:
        own, lock = client.lock(f"marked-{now()}"), client.lock(f"marked-{start}")
        for _ in range(WARM_CYCLES):
            own.acquire().release()
        _mark_tellings(marks)
        for link in (KazooConnection, EtcdConnection):
            _mark_asking(marks, link)
        time.sleep(max(0, start - now()) / 1e9)
        while now() < end:
            grant = lock.acquire()
            marks.append((now(), "got"))
            time.sleep(hold_ns / 1e9)
            marks.append((now(), "release"))
            grant.release()
    return marks


def _mark_tellings(marks: Marks) -> None:
    post: Any = ThreadMailbox.post

    def noted(self: ThreadMailbox, event: Any) -> None:
        marks.append((now(), "told"))
        post(self, event)

    ThreadMailbox.post = noted  # type: ignore[method-assign]


def _mark_asking(marks: Marks, link: Any) -> None:
    """Note what the contender asks; renewals have a thread of their own."""
    ask, contender = link.ask, threading.current_thread()

    def noted(self: Any, request: Any, timeout_s: float) -> Any:
        if threading.current_thread() is not contender:
            return ask(self, request, timeout_s)
        marks.append((now(), "asked"))
        try:
            return ask(self, request, timeout_s)
        finally:
            marks.append((now(), "answered"))

    link.ask = noted


if __name__ == "__main__":
    url, *times = sys.argv[1:]
    print(json.dumps("ready"), flush=True)
    print(json.dumps(contend(url, *map(int, times))), flush=True)
