"""What observers of one client share: one watch for each thing that is observed, however many do.

The first observer of a topic has it watched, by a program that runs behind; the last to leave ends that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from recipes._contract.deadline import Deadline
from recipes._mutex import new_rlock
from recipes._programs.observing import Observed, Observer, Shown, Topic, observe
from recipes._section import section
from recipes.errors import SessionLost

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox
    from recipes._contract.operations import Program

__all__ = ["Hub"]


class Call(Protocol):
    """A call in progress, as far as it concerns a hub."""

    mailbox: Mailbox
    deadline: Deadline
    lasting: bool


class Runtime(Protocol):
    """What the calls of one client share, as far as it concerns a hub.

    Attributes:
        observing_pause_s: How long after a look at what is observed the next comes at the earliest.
    """

    observing_pause_s: float

    def now(self) -> float:
        """Return the time, in seconds."""
        ...

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool) -> Call:
        """Begin a call."""
        ...

    def run_behind(self, program: Program[None], call: Any) -> None:
        """Have ``program`` run in a thread or task of its own."""


class Hub:
    """The topics that are observed now, and the calls that watch them."""

    def __init__(self, runtime: Any) -> None:
        self._runtime: Runtime = runtime
        self._watched: dict[Observed, tuple[Topic, Call]] = {}
        self._changing = new_rlock()

    def join(self, observed: Observed, mailbox: Mailbox) -> Observer:
        """Observe this from now on, until `leave`, or until the observer is dropped.

        Args:
            observed: What, and how.
            mailbox: That of the calls that will wait for the observer's ``next``.

        Raises:
            RuntimeError: No thread can be started.
        """
        with section.mark, self._changing:
            topic, _ = self._watched.get(observed, (None, None))
            if topic is not None and topic.error is None:
                return self._added(topic, mailbox)
            topic = Topic()
            topic.restart = partial(self._watch_again, observed)
            observer = self._added(topic, mailbox)
            self._watch(observed, topic)
            return observer

    def _added(self, topic: Topic, mailbox: Mailbox) -> Observer:
        observer = Observer(topic, mailbox)
        topic.add(observer)
        return observer

    def _watch(self, observed: Observed, topic: Topic) -> None:
        call = self._runtime.call(None, None, fail_fast=observed.fail_fast)
        call.lasting = not observed.fail_fast
        self._watched[observed] = topic, call
        try:
            pause_s = self._runtime.observing_pause_s
            program = observe(observed, topic, lambda: self._wanted(observed, topic), pause_s)
            self._runtime.run_behind(program, call)
        except BaseException:
            self._watched.pop(observed, None)
            raise

    def _watch_again(self, observed: Observed, topic: Topic) -> None:
        topic.forget()
        with section.mark, self._changing:
            self._watch(observed, topic)

    def leave(self, observed: Observed, observer: Observer) -> None:
        """Observe it no more; the last to leave ends the watch. Leaving twice does no harm."""
        observer.topic.remove(observer)
        with section.mark, self._changing:
            topic, call = self._watched.get(observed, (None, None))
            if call is not None and topic is observer.topic and not self._wanted(observed, observer.topic):
                call.deadline = Deadline(self._runtime.now())  # else it asks a store out of reach on and on
                call.mailbox.post(Shown())

    def _wanted(self, observed: Observed, topic: Topic) -> bool:
        """Whether it is observed; if not, its watch ends, and the next to join starts anew."""
        with section.mark, self._changing:
            if topic.observers and topic.error is None:
                return True
            if self._watched.get(observed, (None, None))[0] is topic:
                self._watched.pop(observed, None)  # a signal handler may have done so in between
            return False

    def after_fork(self) -> None:
        """In the child: what was observed in the parent is not any more."""
        watched, self._watched = self._watched, {}
        self._changing = new_rlock()
        for topic, _ in watched.values():
            topic.error = SessionLost("forked")
