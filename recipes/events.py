"""Every transition of what recipes hold, and of sessions, as a record; logged through structlog.

The package is silent by default. If the application has configured structlog, records
go to its ``recipes`` logger; otherwise to the standard library's logger ``recipes``,
which has a ``NullHandler`` until the application adds a handler. What is routine is
logged at level DEBUG; a level that is set on the standard logger ``recipes`` counts in
both, and `configure` sets it. `log_json` prints JSON lines; `subscribe` passes records to a function.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from threading import local
from typing import IO, TYPE_CHECKING, Any

from recipes._printable import printable
from recipes._section import Section
from recipes._signals import of_a_handler

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["EVENTS", "EventType", "Transition", "configure", "log_json", "subscribe"]


@dataclass(frozen=True, slots=True)
class EventType:
    """What is known of an event before it happens.

    Attributes:
        level: "debug" if it is routine, else "info" or "warning".
        fields: Those it always has.
        when: When it happens.
    """

    level: str
    fields: tuple[str, ...]
    when: str


_Transitions = dict[str, tuple[str, tuple[str, ...], str]]
_RECIPE = ("name", "recipe", "mode", "attempt", "store")
_OF_ALL = ("name", "recipe", "store")
_HELD: _Transitions = {
    "queued": ("debug", ("position",), "others are ahead; once each time it queues"),
    "acquired": ("debug", ("token", "waited_s"), "granted"),
    "released": ("debug", ("token", "held_s"), "given back"),
    "timeout": ("info", ("waited_s",), "not granted in time; out of the queue"),
    "cancelled": ("info", ("waited_s", "reason"), "interrupted (Ctrl-C, an error), or refused (`QueueFull`)"),
    "suspect": ("warning", ("token",), "two renewals went unanswered; still held"),
    "lost": ("warning", ("token", "reason"), "no longer held"),
    "requeued": ("warning", ("reason",), "its session or its contender is gone; queues again at the tail"),
}
"""The transitions of whatever is acquired and released."""


def _of_parts(transitions: _Transitions) -> _Transitions:
    """Return the transitions of what is held together: its parts have tokens, queue, and are renewed."""
    return {
        transition: (level, tuple(one for one in more if one != "token"), when)
        for transition, (level, more, when) in transitions.items()
        if transition not in ("queued", "suspect")
    }


_SHARED: _Transitions = {
    "unknown": (
        "warning",
        ("reason",),
        "a write was not answered, and may have been done (`OutcomeUnknown`)",
    ),
}
"""The transitions of whatever is shared."""


_NOUNS: dict[str, tuple[tuple[str, ...], _Transitions]] = {
    "lock": (
        _RECIPE,
        _HELD | {"downgraded": ("debug", ("token", "held_s"), "a writer lets readers in beside it")},
    ),
    "semaphore": (
        (*_RECIPE, "weight"),
        _HELD | {"limit_differs": ("warning", ("reason",), "not all clients name the same limit")},
    ),
    "election": (_RECIPE, _HELD),
    "group": (_RECIPE, _HELD),
    "partition": (_RECIPE, _HELD),
    "multilock": (_RECIPE, _of_parts(_HELD)),
    "value": (
        _OF_ALL,
        _SHARED
        | {
            "written": ("debug", ("version",), "a write was done"),
            "deleted": ("debug", ("version",), "it was deleted"),
        },
    ),
    "counter": (
        _OF_ALL,
        _SHARED
        | {
            "added": ("debug", ("version",), "a number was added"),
            "written": ("debug", ("version",), "it was replaced (`set_if`)"),
        },
    ),
    "latch": (_OF_ALL, _SHARED | {"counted": ("debug", ("version",), "it was counted down")}),
    "barrier": (
        ("name", "recipe", "store", "waited_s"),
        {
            "passed": ("debug", ("position",), "all have come; ``position`` is the index of arrival"),
            "broken": ("info", ("reason",), "its generation does not pass, or did not leave in time"),
        },
    ),
    "session": (
        ("store", "session"),
        {
            "started": ("info", ("timeout_s",), "the store granted a session"),
            "suspect": ("warning", (), "two renewals went unanswered"),
            "lost": ("warning", ("reason",), "given up, by the own clock or because the store said so"),
            "closed": ("info", (), "it was ended on the store: the client was closed, or had given it up"),
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

_WORDS = {
    ("election", "acquired"): "elected",
    ("election", "released"): "resigned",
    ("group", "acquired"): "joined",
    ("group", "released"): "left",
}
"""What a transition of a noun is called in its event, where that is another word."""

_TRANSITIONS = {f"{noun}.{word}": transition for (noun, transition), word in _WORDS.items()}


def noun_of(recipe: str) -> str:
    """Return what a recipe's thing is called in events and messages: "lock" of an "rwlock"."""
    return _NOUN_OF.get(recipe, recipe)


def titled(recipe: str, name: str) -> str:
    """Return what a message calls something: "semaphore 'gpu'"."""
    return f"{noun_of(recipe)} {name!r}"


def event_of(noun: str, transition: str) -> str:
    """Return the event ("election.elected") of a transition ("acquired") of a noun."""
    return f"{noun}.{_WORDS.get((noun, transition), transition)}"


def transition_of(event: str) -> str:
    """Return the transition of which an event ("election.elected") is: "acquired", the same for all nouns."""
    return _TRANSITIONS.get(event) or event.partition(".")[2]


#: Every event by its name, noun first (reference documentation; frozen by a test).
EVENTS: dict[str, EventType] = {
    event_of(noun, transition): EventType(level, (*common, *more), when)
    for noun, (common, transitions) in _NOUNS.items()
    for transition, (level, more, when) in transitions.items()
}

_TOGETHER = frozenset(("group",))
"""The nouns that several hold at once, each under an id of its own."""


def held_together(noun: str, mode: str | None) -> bool:
    """Whether what is held so may be held beside others, whatever waits."""
    return mode == "shared" or noun in _TOGETHER


#: The nouns of what is acquired and released: telemetry and ``recipes timeline`` treat them alike.
HELD = tuple(noun for noun, (_, transitions) in _NOUNS.items() if "acquired" in transitions)

#: The nouns of what is written and shared: telemetry counts how their writes ended.
SHARED = tuple(noun for noun, (_, transitions) in _NOUNS.items() if "unknown" in transitions)


@dataclass(frozen=True, slots=True)
class Transition:
    """Something that happened, in flat fields; those that do not apply are None.

    Attributes:
        event: One of `EVENTS`.
        name: The name of the lock, or whatever it is, as it was given.
        recipe: What kind of thing it is ("lock", "rlock", "election").
        mode: "exclusive" or "shared".
        token: The fencing token.
        attempt: 1 for the first time in the queue, 2 after queueing again, and so on.
        store: The URL of the store, without secrets.
        position: How many contenders were ahead.
        waited_s: Seconds from the call to now.
        held_s: Seconds from the grant to now.
        reason: Why, in a few words.
        weight: How many permits it takes, where it may take several.
        version: Of what was written; None where a lost answer has hidden it.
        session: The session's id.
        timeout_s: The session's length as granted.
        grant: Which grant of this process it is, where that has no token; no log has it.
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
    version: int | None = None
    session: str | None = None
    timeout_s: float | None = None
    grant: int | None = None

    @property
    def noun(self) -> str:
        """The part of ``event`` before the dot, such as "lock"."""
        return self.event.partition(".")[0]

    @property
    def what(self) -> str:
        """What happened to it, such as "acquired"; the same also where the event says "elected"."""
        return transition_of(self.event)

    @property
    def together(self) -> bool:
        """Whether it is of something that is held beside others."""
        return held_together(self.noun, self.mode)

    def fields(self) -> dict[str, Any]:
        """Return the fields that a log has, if they apply; seconds are rounded to a microsecond."""
        values = ((name, getattr(self, name)) for name in _FIELDS)
        return {
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in values
            if value is not None
        }


_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_FIELDS = tuple(field.name for field in fields(Transition) if field.name not in ("event", "grant"))
_PASSED_OVER = frozenset(("recipes", "contextlib"))
"""Packages between an event and the user's line that led to it."""
_STARTERS = frozenset(("asyncio", "threading", "concurrent"))
"""Packages that start threads and tasks: above them is no line that led to an event."""

Hook = Callable[[Transition], None]


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger that never raises.

    ``logging`` raises what a filter, a record factory or a handler of the application's own raises,
    and that would end a thread of the package. Here it is printed, as ``Handler.handleError`` does.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, stacklevel: int = 1, **more: Any) -> None:
        """Log as the logger does; ``stacklevel`` counts from the caller."""
        try:
            self.logger.log(level, msg, *args, stacklevel=stacklevel + 1, **more)
        except (Exception, SystemExit) as error:
            if of_a_handler(error):
                raise
            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(Exception):
                    sys.stderr.write(f"{msg!r} could not be logged:\n{traceback.format_exc()}")


log = Log("recipes")
_standard = log.logger
_standard.addHandler(logging.NullHandler())
_hooks: list[Hook] = []
_telling = Section()
_here = local()


def subscribe(hook: Hook) -> Callable[[], None]:
    """Call ``hook`` with every `Transition` from now on; returns a function that ends it.

    The hook runs in the thread of whatever happened and must not block; what it raises
    is logged, and goes no further.

    Raises:
        TypeError: It cannot be called with a transition, or is a coroutine function.
    """
    from recipes._callback import check_callback  # noqa: PLC0415 - who subscribes to nothing needs it not

    check_callback("a hook", hook, "the transition")
    _hooks.append(hook)
    left = [hook]

    def unsubscribe() -> None:
        with suppress(IndexError, ValueError):  # once: it may be subscribed more than once
            _hooks.remove(left[0])
            left.clear()

    return unsubscribe


def happened(transition: str, labels: Mapping[str, Any], **more: Any) -> Transition:
    """Return the record of a transition ("acquired") of a recipe; its event is named here, and nowhere else.

    Args:
        transition: One of those that the recipe's noun has.
        labels: The fields that all events of one call have, ``recipe`` among them.
        more: Further fields.
    """
    return Transition(_event(labels["recipe"], transition), **labels, **more)


@cache
def _event(recipe: str, transition: str) -> str:
    return event_of(noun_of(recipe), transition)


def configure(*, level: int | str) -> None:
    """Log transitions from this level on, in the standard log and under structlog.

    The same as ``logging.getLogger("recipes").setLevel(level)``. `subscribe` and `log_json` are not
    affected.

    Args:
        level: "debug" (everything), "info", "warning", "error" (nothing), or a number of ``logging``.

    Raises:
        ValueError: There is no such level.
        TypeError: It is neither text nor a number.
    """
    _standard.setLevel(_number_of(level))


def _number_of(level: int | str) -> int:
    if isinstance(level, bool) or not isinstance(level, int | str):
        raise TypeError(f"level is text or a number of logging, not {type(level).__name__}")
    if isinstance(level, int):
        return level
    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise ValueError(f"there is no level {level!r}; use 'debug', 'info', 'warning' or 'error'")
    return known[level.upper()]


def log_json(stream: IO[str] | None = None, *, level: int | str = "debug") -> Callable[[], None]:
    """Print transitions as lines of JSON to ``stream`` (standard error if None).

    Beside its fields each has ``level``, ``timestamp`` and ``pid``: several processes of one machine may
    write to one file, and ``recipes timeline`` draws it; with containers, give each a file of its own.

    Args:
        stream: Where to write; each line is one ``write``.
        level: The least level to print, as for `configure`; "debug" prints all.

    Returns:
        A function that ends it.

    Raises:
        ValueError: There is no such level.
        TypeError: It is neither text nor a number, or there is no writing to the stream.
    """
    least = _number_of(level)
    if stream is not None and not hasattr(stream, "write"):
        raise TypeError(f"log_json writes to an open file, not to {stream!r}")
    import structlog  # noqa: PLC0415 - as in _logfmt

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render = structlog.processors.JSONRenderer()

    def write(transition: Transition) -> None:
        event = transition.event
        if _LEVELS[_level(event)] < least:
            return
        entry = {"event": event, "level": _level(event), "pid": os.getpid(), **transition.fields()}
        line = str(render(None, "", stamp(None, "", entry)))
        out = sys.stderr if stream is None else stream
        if out is not None:
            out.write(f"{line}\n")  # at once: without a buffer, others could write before the end of the line
            out.flush()

    return subscribe(write)


def wanted(event: str) -> bool:
    """Whether anything would take this event; saves making the record of it."""
    return bool(_hooks) or _logged(event)


def prepare() -> None:
    """Load what writes to the standard log, if that is read: a loss cannot wait for an import."""
    if _configured() is None and _heard(logging.WARNING):
        _logfmt()


def emit(transition: Transition) -> None:
    """Hand a record to the log and to every subscriber; never raises.

    Exporters and handlers of logs have locks. So what a signal handler or a finalizer emits amid a
    emission is emitted next, by what it interrupted.
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
        except (Exception, SystemExit) as error:  # that would end the thread that renews
            if of_a_handler(error):
                raise
            log.exception("a subscriber of recipes.events failed")


def _untold() -> deque[Transition]:
    """Return what this thread has still to tell."""
    try:
        found: deque[Transition] = _here.untold
    except AttributeError:
        found = _here.__dict__.setdefault("untold", deque())
    return found


def _level(event: str) -> str:
    """Return the level of an event; a noun that is not in the table has the levels of what is held."""
    known = EVENTS.get(event)
    return known.level if known is not None else _HELD[transition_of(event)][0]


def _logged(event: str) -> bool:
    """Whether an event goes to a log, by the level that is set on the logger ``recipes``.

    Under structlog only the logger's own level counts, and not the root's, which is WARNING by default.
    """
    level = _LEVELS[_level(event)]
    return _heard(level) if _configured() is None else level >= _standard.level


def _log(transition: Transition) -> None:
    event = transition.event
    if not _logged(event):
        return
    level, values, structlog = _level(event), transition.fields(), _configured()
    number = _LEVELS[level]
    if structlog is not None:
        if _makes_records(structlog):
            values = _attributes(values, _standard.makeRecord("recipes", number, "", 0, event, (), None))
        getattr(structlog.get_logger("recipes"), level)(event, **values)
    else:
        path, line, function, _ = _standard.findCaller(stacklevel=stacklevel())
        said = f"{event} %s", (printable(_logfmt()(None, level, dict(values))),)  # names are others' choice
        record = _standard.makeRecord("recipes", number, path, line, *said, None, function)
        vars(record).update(_attributes({"event": event, **values}, record))
        _standard.handle(record)


def _attributes(values: dict[str, Any], record: logging.LogRecord) -> dict[str, Any]:
    """Return fields as further attributes of a standard record.

    One whose name is taken, as ``name`` by the logger's, is ``recipe_name``; record factories take others.
    """
    taken = vars(record)
    named = {f"recipe_{name}" if name in taken else name: value for name, value in values.items()}
    return {name: value for name, value in named.items() if name not in taken}


def _makes_records(structlog: Any) -> bool:
    """Whether the application's structlog makes its fields the attributes of standard records."""
    return any(
        getattr(processor, "__name__", "").startswith("render_to_log_")
        for processor in structlog.get_config()["processors"][-1:]
    )


def stacklevel() -> int:
    """Return how far above the caller of this the user's line is that led there, as ``stacklevel`` counts.

    Events of the package's own threads and tasks have none: then it is 1, a line of this module.
    """
    level = 1
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as logging does
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in _STARTERS:
            break
        if package not in _PASSED_OVER:
            return level
        level, frame = level + 1, frame.f_back
    return 1


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
def _logfmt() -> Any:
    """Return what renders fields as ``name=x token=7``."""
    # Importing structlog takes as long as all the rest of the package, and most never need it.
    import structlog  # noqa: PLC0415

    return structlog.processors.LogfmtRenderer(bool_as_flag=False)
