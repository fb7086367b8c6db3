"""What is read of one lock, and how it is shown: as a table, and as fields."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import recipes
from recipes import events
from recipes.inspection import ContenderInfo, observe

__all__ = ["Queue", "described", "follow", "read"]

FOREIGN = "of another kind of client"
COLUMNS = ("", "mode", "token", "owner", "host", "pid", "since")
OF_PERMITS = ("", "permits", "id", *COLUMNS[3:])


@dataclass(frozen=True, slots=True)
class Queue:
    """One lock as the store showed it.

    Attributes:
        lock: Its name.
        contenders: Who stood in its queue, in order.
        foreign: What else was there, that is no contender, or may not wait for ours.
        more: Whether there were more than were read.
    """

    lock: str
    contenders: tuple[ContenderInfo, ...]
    foreign: tuple[str, ...] = ()
    more: bool = False

    @property
    def holders(self) -> list[ContenderInfo]:
        """Who held it."""
        return [one for one in self.contenders if one.holds]

    @property
    def waiters(self) -> list[ContenderInfo]:
        """Who waited, in order."""
        return [one for one in self.contenders if not one.holds]

    def as_fields(self) -> dict[str, Any]:
        """Return it as it is printed for programs."""
        return {
            "lock": self.lock,
            "holders": [_fields(one) for one in self.holders],
            "waiters": [_fields(one) for one in self.waiters],
            "strangers": list(self.foreign),
            "more": self.more,
        }

    def drawn(self, most: int | None = None) -> RenderableType:
        """Return it as a table; of the waiters the first ``most``."""
        table = Table(title=self.lock, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for name in OF_PERMITS if any(map(_takes_permits, self.contenders)) else COLUMNS:
            right = name in ("token", "pid", "permits")
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        shown = [*self.holders, *self.waiters[:most]]
        for one in shown:
            table.add_row(*map(Text, _row(one)))
        left = len(self.contenders) - len(shown)
        notes = [f"... and {left} more wait"] if left else []
        notes += ["there are more: see --limit"] if self.more else []
        notes += [f"beside them: {one}" for one in self.foreign]
        nobody = [] if shown else ["nobody holds it, and nobody waits"]
        return Group(table, *map(Text, [*nobody, *notes]))


def described(one: ContenderInfo) -> str:
    """Return a contender in a line."""
    known = [f"{name} {value}" for name, value in (("host", one.host), ("pid", one.pid)) if value is not None]
    who = ", ".join([one.owner or "owner unknown" if one.ours else FOREIGN, *known])
    what = f"permits {one.weight}, id {one.id}" if _takes_permits(one) else f"{one.mode}, token {one.token}"
    return f"{'holds it' if one.holds else 'waits'}, {what}: {who}; {one.key}"


def read(client: recipes.Client, name: str, limit: int, *, semaphore: bool = False) -> Queue:
    """Ask the store; within the client's request timeout."""
    looked_at = client.semaphore(name, 1) if semaphore else client.lock(name)
    with _strangers() as foreign:
        found = looked_at.contenders(limit=limit)
    return _queue(name, found, foreign, limit)


def follow(
    client: recipes.Client, name: str, limit: int, every_s: float, *, semaphore: bool = False, redrawn: bool
) -> Iterator[Queue]:
    """Yield the queue now, and after every change; where it is ``redrawn``, every ``every_s`` at least."""
    looked_at = client.semaphore(name, 1) if semaphore else client.lock(name)
    with _strangers() as foreign, observe(looked_at, limit=limit, every_s=every_s) as seen:
        found = next(seen)
        while True:
            yield _queue(name, found, foreign, limit)
            changed = seen.next(every_s if redrawn else None)
            found = found if changed is None else changed


def _queue(name: str, found: list[ContenderInfo], foreign: list[str], limit: int) -> Queue:
    return Queue(name, tuple(found), tuple(dict.fromkeys(foreign)), more=len(found) == limit)


@contextmanager
def _strangers() -> Generator[list[str]]:
    """Yield the list of what is found beside contenders from now on."""
    found: list[str] = []

    def note(transition: events.Transition) -> None:
        if transition.event == "store.stranger":
            found.append(str(transition.reason))

    unsubscribe = events.subscribe(note)
    try:
        yield found
    finally:
        unsubscribe()


def _fields(one: ContenderInfo) -> dict[str, Any]:
    fields = asdict(one)
    del fields["lock"], fields["mine"]
    if not _takes_permits(one):
        del fields["id"], fields["weight"]
    return {**fields, "foreign": not one.ours}


def _takes_permits(one: ContenderInfo) -> bool:
    return one.weight is not None


def _row(one: ContenderInfo) -> Iterator[str]:
    yield "holds" if one.holds else str(one.position)
    yield str(one.weight) if _takes_permits(one) else one.mode
    yield one.id if _takes_permits(one) else str(one.token)
    yield (one.owner or "") if one.ours else f"{one.owner or ''} ({FOREIGN})".strip()
    yield one.host or ""
    yield "" if one.pid is None else str(one.pid)
    yield "" if one.since is None else _ago(one.since)


def _ago(since: float) -> str:
    """Return a moment of a machine's wall clock, and how long ago that is by ours."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    seconds = max(time.time() - since, 0.0)
    return f"{clock} ({_long(seconds)})"


def _long(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
