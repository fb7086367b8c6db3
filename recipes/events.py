"""Every transition of a lock and a session, as a record; logged through structlog.

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
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from threading import local
from typing import IO, Any

from recipes._section import Section

__all__ = ["EVENTS", "Transition", "log_json", "subscribe"]

_LOCK = ("lock", "recipe", "mode", "attempt", "store")

#: Every event, its level, and the fields it always has (reference documentation; frozen by a test).
EVENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "lock.queued": ("info", (*_LOCK, "position")),
    "lock.acquired": ("info", (*_LOCK, "token", "waited_s")),
    "lock.downgraded": ("info", (*_LOCK, "token", "held_s")),
    "lock.released": ("info", (*_LOCK, "token", "held_s")),
    "lock.timeout": ("info", (*_LOCK, "waited_s")),
    "lock.cancelled": ("info", (*_LOCK, "waited_s", "reason")),
    "lock.suspect": ("warning", (*_LOCK, "token")),
    "lock.lost": ("warning", (*_LOCK, "token", "reason")),
    "lock.requeued": ("warning", (*_LOCK, "reason")),
    "semaphore.limit_differs": ("warning", (*_LOCK, "reason", "weight")),
    "session.started": ("info", ("store", "session", "timeout_s")),
    "session.suspect": ("warning", ("store", "session")),
    "session.lost": ("warning", ("store", "session", "reason")),
    "session.closed": ("info", ("store", "session")),
    "store.retry": ("warning", ("store", "reason")),
    "store.stranger": ("warning", ("store", "reason")),
}


@dataclass(frozen=True, slots=True)
class Transition:
    """Something that happened, in flat fields; those that do not apply are None.

    Attributes:
        event: One of `EVENTS`.
        lock: The lock's name.
        recipe: What kind of thing it is ("lock", "rlock", "rwlock").
        mode: "exclusive" or "shared".
        token: The fencing token.
        attempt: 1 for the first time in the queue, 2 after queueing again, ...
        store: Where, without secrets.
        position: How many were ahead.
        waited_s: Seconds from the call to now.
        held_s: Seconds from the grant to now.
        reason: Why, in a few words.
        weight: How many permits it takes, where it may take several.
        session: The session's id.
        timeout_s: The session's length as granted.
    """

    event: str
    lock: str | None = None
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
    return _heard(_LEVELS[EVENTS[event][0]])


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
    level = EVENTS[transition.event][0]
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
    """Wrap the standard logger once; its records read ``lock.acquired lock=x token=7``."""
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
