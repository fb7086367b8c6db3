"""One session with a store whose library blocks: what its links for threads and for asyncio share."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from recipes._contract.connection import Mailbox, OnEnd
from recipes._contract.wakeups import Changed, Gone
from recipes._run.clock import boot_time
from recipes.stores._kit.queue import Command
from recipes.stores._kit.subscriptions import Subscriptions

__all__ = ["Session"]


class Session(ABC):
    """Carries out commands in the thread that asks, and looks after what is watched.

    A store that can notify other processes has a `socket`, and says in `hear` what arrived there. As such a
    hint may be lost, and some stores have none, `tick` is called every `pause_s` while a call waits.

    Args:
        label: Where the store is, for errors.
        on_end: Notified once if the session turns out to have ended.

    Attributes:
        subscriptions: What the client's calls watch.
        on_listen: Called when a call waits and none did before; never blocks.
    """

    def __init__(self, label: str, on_end: OnEnd) -> None:
        self.label = label
        self.subscriptions = Subscriptions()
        self.on_listen: Callable[[], None] = lambda: None
        self._on_end: OnEnd | None = on_end
        self._next_tick = 0.0
        self._idle = True

    @abstractmethod
    def carry_out(self, command: Command, timeout_s: float) -> Any:
        """Carry out a command within so many seconds, and notify; or raise."""

    @abstractmethod
    def tick(self) -> None:
        """Look after what is watched, and `plan_tick`; never raises."""

    @property
    @abstractmethod
    def pause_s(self) -> float:
        """After how many seconds to look by itself."""

    @abstractmethod
    def close(self, within_s: float) -> None:
        """Let go of everything; never raises."""

    @property
    def socket(self) -> socket.socket | None:
        """What is to be read, by `hear`, when something arrives; None: nothing will."""
        return None

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed what shows that this session lives, or its `socket`."""
        return False

    def hear(self) -> bool:
        """Pass on what arrived at the socket; whether it is better to look as well."""
        return False

    def listen(self, mailbox: Mailbox, ref: str) -> None:
        """Have a mailbox notified of a contender or a queue, and `tick` look after it."""
        self.subscriptions.add(mailbox, ref)  # first: `tick_s` says that it is idle before it looks
        if self._idle:
            self.plan_tick()
            self.on_listen()

    def post(self, news: Iterable[Gone | Changed]) -> None:
        """Notify the calls that watch what these events are about."""
        for event in news:
            self.subscriptions.post(event)

    @property
    def tick_s(self) -> float | None:
        """After how many seconds to call `tick`; None: no call waits."""
        self._idle = True
        if not self.subscriptions:
            return None
        self._idle = False
        return max(0.0, self._next_tick - boot_time())

    def plan_tick(self) -> None:
        """Have the next look `pause_s` from now."""
        self._next_tick = boot_time() + self.pause_s

    def end(self, reason: str) -> None:
        """Say that the session has ended; never raises, never waits."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(reason)
