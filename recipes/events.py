"""Every transition of what recipes hold, and of sessions, as a record; logged through structlog.

The package is silent by default. If the application has configured structlog, records
go to its ``recipes`` logger; otherwise to the standard library's logger ``recipes``,
which has a ``NullHandler`` until the application adds a handler. `log_json` prints them
as JSON lines; `subscribe` hands them to a function of yours.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from threading import local
from typing import IO, Any

from recipes._section import Section

__all__ = ["EVENTS", "EventType", "Transition", "log_json", "subscribe"]


@dataclass(frozen=True, slots=True)
class EventType:
    """What is known of an event before it happens.

    Attributes:
        level: "info" or "warning".
        fields: Those it always has.
        when: When it happens.
    """

    level: str
    fields: tuple[str, ...]
    when: str


_Transitions = dict[str, tuple[str, tuple[str, ...], str]]
_RECIPE = ("name", "recipe", "mode", "attempt", "store")
_HELD: _Transitions = {
    "queued": ("info", ("position",), "others are ahead; once each time it queues"),
    "acquired": ("info", ("token", "waited_s"), "granted"),
    "released": ("info", ("token", "held_s"), "given back"),
    "timeout": ("info", ("waited_s",), "not granted in time; out of the queue"),
    "cancelled": ("info", ("waited_s", "reason"), "interrupted (Ctrl-C, an error), or refused (`QueueFull`)"),
    "suspect": ("warning", ("token",), "two renewals went unanswered; still held"),
    "lost": ("warning", ("token", "reason"), "no longer held"),
    "requeued": ("warning", ("reason",), "its session or its contender is gone; queues again at the tail"),
}
"""The transitions of whatever is acquired and released."""

_NOUNS: dict[str, tuple[tuple[str, ...], _Transitions]] = {
    "lock": (
        _RECIPE,
        _HELD | {"downgraded": ("info", ("token", "held_s"), "a writer lets readers in beside it")},
    ),
    "session": (
        ("store", "session"),
        {
            "started": ("info", ("timeout_s",), "the store granted a session"),
            "suspect": ("warning", (), "two renewals went unanswered"),
            "lost": ("warning", ("reason",), "given up, by the own clock or because the store said so"),
            "closed": ("info", (), "the client was closed"),
        },
    ),
    "store": (
        ("store", "reason"),
        {
            "retry": ("warning", (), "an answer was lost; asked again"),
            "stranger": ("warning", (), "a contender may never leave by itself, or may not wait for ours"),
        },
    ),
}
"""Each noun: the fields that all its events have, and its transitions with their level and further fields."""

_NOUN_OF = {"rlock": "lock", "rwlock": "lock"}
"""The nouns of recipes whose name is not their noun."""

#: Every event by its name, noun first (reference documentation; frozen by a test).
EVENTS: dict[str, EventType] = {
    f"{noun}.{transition}": EventType(level, (*common, *more), when)
    for noun, (common, transitions) in _NOUNS.items()
    for transition, (level, more, when) in transitions.items()
}

#: The nouns of what is acquired and released: telemetry and ``recipes timeline`` treat them alike.
HELD = tuple(noun for noun in _NOUNS if f"{noun}.acquired" in EVENTS)


@dataclass(frozen=True, slots=True)
class Transition:
    """Something that happened, in flat fields; those that do not apply are None.

    Attributes:
        event: One of `EVENTS`.
        name: The name of the lock, or whatever it is, as it was given.
        recipe: What kind of thing it is ("lock", "rlock", "rwlock").
        mode: "exclusive" or "shared".
        token: The fencing token.
        attempt: 1 for the first time in the queue, 2 after queueing again, and so on.
        store: The URL of the store, without secrets.
        position: How many contenders were ahead.
        waited_s: Seconds from the call to now.
        held_s: Seconds from the grant to now.
        reason: Why, in a few words.
        weight: How many permits it takes, where it may take several.
        session: The session's id.
        timeout_s: The session's length as granted.
    """

    event: str
    name: str | None = None
    recipe: str | None = None
    mode: str | None = None
    token: int | None = None
    attempt: int | None = None
    store: str | None = None
    position: int | None = None
    waited_s: float | None = None
    held_s: float | None = None
    reason: str | None = None
    weight: int | None = None
    session: str | None = None
    timeout_s: float | None = None

    @property
    def noun(self) -> str:
        """What it happened to ("lock"): the part of ``event`` before the dot."""
        return self.event.partition(".")[0]

    @property
    def what(self) -> str:
        """What happened to it ("acquired"): the part of ``event`` after the dot."""
        return self.event.partition(".")[2]

    def fields(self) -> dict[str, Any]:
        """Return the fields that apply, without ``event``."""
        values = ((name, getattr(self, name)) for name in _FIELDS)
        return {name: value for name, value in values if value is not None}


_LEVELS = {"info": logging.INFO, "warning": logging.WARNING}
_FIELDS = tuple(field.name for field in fields(Transition) if field.name != "event")

Hook = Callable[[Transition], None]

_standard = logging.getLogger("recipes")
_standard.addHandler(logging.NullHandler())
_hooks: list[Hook] = []
_telling = Section()
_here = local()


def subscribe(hook: Hook) -> Callable[[], None]:
    """Call ``hook`` with every `Transition` from now on; returns a function that ends it.

    The hook runs in the thread of whatever happened and must not block; what it raises
    is logged, and goes no further.
    """
    _hooks.append(hook)

    def unsubscribe() -> None:
        if hook in _hooks:
            _hooks.remove(hook)

    return unsubscribe


def happened(transition: str, labels: Mapping[str, Any], **more: Any) -> Transition:
    """Return the record of a transition ("acquired") of a recipe; its event is named here, and nowhere else.

    Args:
        transition: One of those that the recipe's noun has.
        labels: The fields that all events of one call have, ``recipe`` among them.
        more: Further fields.
    """
    recipe = labels["recipe"]
    return Transition(f"{_NOUN_OF.get(recipe, recipe)}.{transition}", **labels, **more)


def log_json(stream: IO[str] | None = None) -> Callable[[], None]:
    """Print every transition as one line of JSON to ``stream`` (standard error if None).

    Beside its fields it has the ``timestamp`` and the ``pid``: several processes may write to one
    file, and ``recipes timeline`` draws it.

    Returns:
        A function that ends it.
    """
    import structlog  # noqa: PLC0415 - as in _wrapped

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render = structlog.processors.JSONRenderer()

    def write(transition: Transition) -> None:
        entry = stamp(None, "", {"event": transition.event, "pid": os.getpid(), **transition.fields()})
        print(render(None, "", entry), file=stream or sys.stderr, flush=True)

    return subscribe(write)


def wanted(event: str) -> bool:
    """Whether anybody would see this event; saves making the record of it."""
    if _hooks or _configured() is not None:
        return True
    return _heard(_LEVELS[EVENTS[event].level])


def prepare() -> None:
    """Load what writes to the standard log, if anybody reads that: a loss cannot wait for an import."""
    if _configured() is None and _heard(logging.WARNING):
        _wrapped(_standard)


def emit(transition: Transition) -> None:
    """Hand a record to the log and to every subscriber; never raises.

    Exporters and handlers of logs have locks. So what a signal handler or a finalizer emits amid a
    telling is told next, by what it interrupted.
    """
    untold = _untold()
    untold.append(transition)
    while untold and not _telling.struck():  # again: a handler may strike as the section ends
        with _telling.mark:
            while untold:
                _tell(untold.popleft())


def _tell(transition: Transition) -> None:
    for hook in (_log, *_hooks):
        try:
            hook(transition)
        except (Exception, SystemExit):  # that would end the thread that renews
            _standard.exception("a subscriber of recipes.events failed")


def _untold() -> deque[Transition]:
    """Return what this thread has still to tell."""
    try:
        found: deque[Transition] = _here.untold
    except AttributeError:
        found = _here.__dict__.setdefault("untold", deque())
    return found


def _log(transition: Transition) -> None:
    level = EVENTS[transition.event].level
    structlog = _configured()
    if structlog is not None:
        getattr(structlog.get_logger("recipes"), level)(transition.event, **transition.fields())
    elif _heard(_LEVELS[level]):
        getattr(_wrapped(_standard), level)(transition.event, **transition.fields())


def _heard(level: int) -> bool:
    """Whether a record of ``level`` reaches a handler, one that does something."""
    logger: logging.Logger | None = _standard if _standard.isEnabledFor(level) else None
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _configured() -> Any:
    """Return structlog, if the application configured it; who did not import it did not."""
    structlog = sys.modules.get("structlog")
    is_configured = getattr(structlog, "is_configured", None)  # none while another thread imports it
    return structlog if is_configured is not None and is_configured() else None


@cache
def _wrapped(standard: logging.Logger) -> Any:
    """Wrap the standard logger once; its records read ``lock.acquired name=x token=7``."""
    # Importing structlog takes as long as all the rest of the package, and most never need it.
    import structlog  # noqa: PLC0415

    render = structlog.processors.LogfmtRenderer(bool_as_flag=False)

    def rendered(logger: Any, name: str, entry: Any) -> Any:
        event = entry.pop("event")
        return f"{event} {render(logger, name, entry)}"

    return structlog.wrap_logger(
        standard,
        processors=[rendered],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
