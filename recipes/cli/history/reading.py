"""Reads events from JSON lines: those of `recipes.events.log_json`, of structlog, and of the demo."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from recipes.events import HELD, held_together

__all__ = ["Happening", "Log", "NoEvents", "happening", "read"]

TIMES = ("at", "timestamp", "time", "ts")
NUMBERS = ("token", "attempt", "position", "waited_s", "held_s")
LANES: tuple[tuple[str, ...], ...] = (("worker",), ("host", "pid", "thread"), ("process", "thread"))
"""Fields that say who it was, in order of preference."""


class NoEvents(Exception):
    """There is nothing to draw; the message says why."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of a lock, or of whatever is held, and its source.

    Attributes:
        at: When, in seconds; only differences count.
        lane: Who.
        event: Which of `recipes.events.EVENTS`.
        name: Its name.
        store: The URL of its store; None if the log does not say.
        mode: "exclusive" or "shared".
        token: The fencing token, if it has one.
        attempt: 2 and more for one that queued anew.
        position: How many were ahead.
        waited_s: Seconds since the call.
        held_s: Seconds since the grant.
        reason: Why.
    """

    at: float
    lane: str
    event: str
    name: str
    store: str | None = None
    mode: str = "exclusive"
    token: int | None = None
    attempt: int = 1
    position: int | None = None
    waited_s: float | None = None
    held_s: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """What was read.

    Attributes:
        happenings: The events of locks, in the order of their times.
        other: How many lines were something else.
    """

    happenings: tuple[Happening, ...]
    other: int


def read(files: Sequence[tuple[str, IO[str]]], lane: str | None = None) -> Log:
    """Read logs.

    Args:
        files: Their names and what is in them.
        lane: The field that says who it was; by default "worker", or "host", "pid" and "thread", or
            else the file.

    Raises:
        NoEvents: There is no event of a lock in it, or its times are of several clocks.
    """
    found: list[Happening] = []
    clocks: set[str] = set()
    other = 0
    stems = Counter(Path(name).stem for name, _ in files)
    for name, file in files:
        stem = Path(name).stem if stems[Path(name).stem] == 1 else name
        prefix = f"{stem} " if len(files) > 1 else ""
        for fields in _objects(file):
            one = happening(fields, _lane(fields, lane, prefix, stem))
            if one is None:
                other += 1
                continue
            clocks.add("at" if _clock(fields) == "at" else "timestamp")
            found.append(one)
    if not found:
        raise NoEvents(f"no event of a lock among {other} lines; write a log with recipes.events.log_json()")
    if len(clocks) > 1:
        raise NoEvents("some events have the time of day, others that since boot: draw them one by one")
    return Log(tuple(sorted(found, key=lambda one: one.at)), other)


def _objects(file: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what is in each line; nothing for one that is no JSON object."""
    for line in file:
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError:
                found = {}
            yield found if isinstance(found, dict) else {}


def _of_a_lock(fields: dict[str, Any]) -> bool:
    """Return whether these are the fields of such an event, and are what they should be."""
    event = fields.get("event")
    if not isinstance(event, str) or event.partition(".")[0] not in HELD:
        return False
    return isinstance(_name(fields), str) and all(
        isinstance(fields.get(one), int | float | None) for one in NUMBERS
    )


def _clock(fields: dict[str, Any]) -> str | None:
    """Return which field says when it was."""
    return next((key for key in TIMES if isinstance(fields.get(key), str | int | float)), None)


def _name(fields: dict[str, Any]) -> Any:
    """Return the name; where ``name`` is a record's of `logging`, that is the logger's."""
    return fields.get("recipe_name", fields.get("name"))


def _lane(fields: dict[str, Any], chosen: str | None, prefix: str, file: str) -> str:
    if chosen is not None:
        return f"{prefix}{fields.get(chosen, '?')}"
    if "worker" in fields:
        return f"{prefix}worker {fields['worker']}"
    for names in LANES:
        if parts := [str(fields[key]) for key in names if key in fields]:
            return prefix + " ".join(parts)
    return file


def happening(fields: dict[str, Any], lane: str) -> Happening | None:
    """Return the event of a lock that a line describes; None if it describes something else."""
    clock = _clock(fields)
    if clock is None or not _of_a_lock(fields):
        return None
    noun, mode = fields["event"].partition(".")[0], fields.get("mode", "exclusive")
    return Happening(
        at=_seconds(fields[clock]),
        lane=lane,
        event=fields["event"],
        name=_name(fields),
        store=store if isinstance(store := fields.get("store"), str) else None,
        mode="shared" if held_together(noun, mode) else mode,
        token=fields.get("token"),
        attempt=fields.get("attempt") or 1,
        position=fields.get("position"),
        waited_s=fields.get("waited_s"),
        held_s=fields.get("held_s"),
        reason=fields.get("reason"),
    )


def _seconds(time: Any) -> float:
    if isinstance(time, str):
        try:
            return datetime.fromisoformat(time).timestamp()
        except ValueError:
            raise NoEvents(f"{time!r} is no time: use ISO 8601, or seconds") from None
    return float(time)
