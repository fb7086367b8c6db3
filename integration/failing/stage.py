"""Where a scene happens: a holder behind a proxy, a waiter straight at the server, and what they told."""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import recipes
from integration import servers
from integration.faults.looking import contenders, hold_fault, remove
from integration.harness.embedded import EmbeddedZooKeeper
from integration.proxy import Proxy
from recipes import events

__all__ = ["LOCK", "SOON_S", "Stage"]

LOCK = "nightly"
SESSION_S = 15.0
"""Long enough that a busy machine adds no `session.suspect` to what is told, and leaves none out."""
REQUEST_S = 3.0
SOON_S = 20.0
"""Longer than a session that is not renewed lasts."""
ORDINARY = {"session.started", "session.closed", "lock.acquired", "lock.released", "store.retry"}
"""What is told on any day, or by chance, and left out."""


class Stage:
    """A context manager; its clients are closed at the end."""

    def __init__(self, server: servers.Server) -> None:
        self.server = server
        self.prefix = f"failing-{uuid.uuid4().hex[:8]}"
        self.told: list[str] = []
        self._stack = contextlib.ExitStack()
        self._changed = threading.Condition()
        self.proxy = self._stack.enter_context(Proxy.of(server))
        self._stack.callback(events.subscribe(self._hear))

    def _hear(self, transition: events.Transition) -> None:
        if self.prefix not in (transition.store or "") or transition.event in ORDINARY:
            return
        reason = "" if transition.reason is None else f" reason={plain(transition.reason)!r}"
        with self._changed:
            self.told.append(f"{transition.event}{reason}")
            self._changed.notify_all()

    def until(self, event: str, count: int = 1) -> None:
        """Wait until an event was told so often."""
        with self._changed:
            heard = self._changed.wait_for(
                lambda: sum(line.split(" ")[0] == event for line in self.told) >= count, SOON_S
            )
        assert heard, f"{event} should have been told: {self.told}"

    def holder(self) -> recipes.Client:
        """Return a client behind the proxy, open."""
        return self._client(self.proxy.url(self.prefix))

    def waiter(self) -> recipes.Client:
        """Return a client straight at the server, open."""
        return self._client(self.server.url(self.prefix))

    def _client(self, url: str) -> recipes.Client:
        client = recipes.connect(url, session_timeout=SESSION_S, request_timeout=REQUEST_S)
        self._stack.callback(client.close)
        client.open()
        return client

    def queue_up(self, client: recipes.Client) -> Future[recipes.Grant]:
        """Have it wait for the lock, in a thread of its own."""
        found: Future[recipes.Grant] = Future()

        def wait() -> None:
            try:
                found.set_result(client.lock(LOCK).acquire(timeout=SOON_S))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=wait, daemon=True).start()
        self.until("lock.queued")
        return found

    def hold_until_lost(self, client: recipes.Client, fault: Callable[[], None]) -> None:
        """Have something happen to a holder in the middle of its work, and note what ends its block."""

        def work() -> None:
            with client.lock(LOCK) as grant:
                fault()
                grant.lost.wait(SOON_S)
                self.until("lock.lost")

        self.raised(work)

    def raised(self, call: Callable[[], Any]) -> BaseException:
        """Note what a call raises, and from what."""
        try:
            call()
        except recipes.RecipesError as error:
            cause = error.__cause__
            why = f", from {_named(cause)}" if isinstance(cause, recipes.RecipesError) else ""
            self.told.append(f"{_named(error)}{why}")
            return error
        raise AssertionError("it should have raised")

    def end(self, session: str) -> None:
        """End a session on the store."""
        if isinstance(self.server, servers.Etcd):
            self.server.revoke(str(int(session, 16)))
        else:
            assert isinstance(self.server, EmbeddedZooKeeper)
            self.server.expire(session)

    def remove_first(self) -> None:
        """Delete a contender, as an operator would."""
        remove(self.server, min(contenders(self.server, self.prefix)))

    def pass_s(self, seconds: float) -> None:
        """Let a fault last."""
        hold_fault(seconds)

    @property
    def lines(self) -> list[str]:
        """What was told, each thing once and by kind (threads tell in any order); then what was raised."""
        order = list(events.EVENTS)
        kinds = [line.split(" ")[0] for line in self.told]
        found = sorted(
            (order.index(kind) if kind in order else len(order), line)
            for kind, line in zip(kinds, self.told, strict=True)
        )
        return list(dict.fromkeys(line for _, line in found))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy.heal()
        self._stack.close()
        servers.settle(self.server, self.prefix)
        servers.clean(self.server, self.prefix)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {plain(str(error))}"


def plain(text: str) -> str:
    """Return a text without what is another in each run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    text = re.sub(r"token \d+", "token N", text)
    text = re.sub(r"failing-\w+", "app", text)
    text = re.sub(r"within [\d.]+ s( \([^)]*\))?; check", "within N s; check", text)
    text = re.sub(r"\(nothing within [\d.]+ s\)", "(nothing within N s)", text)
    text = re.sub(r"-\d{10}\b", "-NNNNNNNNNN", text)
    return re.sub(r"\b[0-9a-f]{12,32}\b", "ID", text)
