"""What is read of one lock, or another recipe's queue, and how it is shown: as a table, and as fields."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import recipes
from recipes import events
from recipes._printable import printable
from recipes.cli.looking.asking import Justify, table
from recipes.cli.looking.shapes import SHAPES, Shape
from recipes.cli.options import made
from recipes.inspection import MOST as READ_AT_ONCE
from recipes.inspection import ContenderInfo, observe

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["READ_AT_ONCE", "Queue", "follow", "long", "looked_at", "more_of", "one_more", "read"]

FOREIGN = "of another kind of client"
IDENTITY: tuple[tuple[str, Justify], ...] = (
    ("owner", "left"),
    ("host", "left"),
    ("pid", "right"),
    ("since", "left"),
)
"""The columns that all recipes have."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One lock, or another recipe's queue, as the store showed it.

    Attributes:
        lock: Its name.
        contenders: Those in its queue, in order.
        foreign: What else was there, that is no contender, or may not wait for ours.
        more: Whether there were more than were read.
        recipe: What it is.
    """

    lock: str
    contenders: tuple[ContenderInfo, ...]
    foreign: tuple[str, ...] = ()
    more: bool = False
    recipe: str = "lock"

    @property
    def shape(self) -> Shape:
        """How it is shown."""
        return SHAPES[self.recipe]

    @property
    def holders(self) -> list[ContenderInfo]:
        """Those that held it."""
        return [one for one in self.contenders if one.holds]

    @property
    def waiters(self) -> list[ContenderInfo]:
        """Those that waited, in order."""
        return [one for one in self.contenders if not one.holds]

    def as_fields(self) -> dict[str, Any]:
        """Return it as it is printed for programs."""
        return {
            "recipe": self.recipe,
            "lock": self.lock,
            "holders": [self._fields(one) for one in self.holders],
            "waiters": [self._fields(one) for one in self.waiters],
            "strangers": list(self.foreign),
            "more": self.more,
        }

    def drawn(self, most: int | None = None) -> RenderableType:
        """Return it as a table; of the waiters the first ``most``."""
        from rich.console import Group  # noqa: PLC0415 - slow to import, and JSON needs none of it
        from rich.text import Text  # noqa: PLC0415

        title = self.lock if self.recipe == "lock" else f"{self.recipe} {self.lock}"
        shown = [*self.holders, *self.waiters[:most]]
        drawn = table(title, [("", "left"), *self.shape.columns, *IDENTITY], map(self._row, shown))
        left = len(self.contenders) - len(shown)
        notes = [f"... and {left} more wait"] if left else []
        notes += ["there are more: see --limit"] if self.more else []
        notes += [f"beside them: {one}" for one in self.foreign]
        nobody = [] if shown else [self.shape.nobody]
        return Group(drawn, *(Text(printable(one)) for one in [*nobody, *notes]))

    def described(self, one: ContenderInfo) -> str:
        """Return one of its contenders in a line."""
        at = ("host", one.host), ("pid", one.pid)
        known = [f"{name} {value}" for name, value in at if value is not None]
        who = ", ".join([one.owner or "owner unknown" if one.ours else FOREIGN, *known])
        does = self.shape.holds_it if one.holds else self.shape.waits
        return printable(f"{does}, {self.shape.words(one)}: {who}; {one.key}")

    def _row(self, one: ContenderInfo) -> Iterator[str]:
        yield self.shape.holds if one.holds else str(one.position)
        yield from self.shape.cells(one)
        yield (one.owner or "") if one.ours else f"{one.owner or ''} ({FOREIGN})".strip()
        yield one.host or ""
        yield "" if one.pid is None else str(one.pid)
        yield "" if one.since is None else _ago(one.since)

    def _fields(self, one: ContenderInfo) -> dict[str, Any]:
        fields = asdict(one)
        for name in ("lock", "mine", "id", "weight", "data"):
            del fields[name]
        return {**fields, **self.shape.fields(one), "foreign": not one.ours}


def looked_at(client: recipes.Client, recipe: str, name: str) -> Any:
    """Return what a recipe calls by this name, to be looked at."""
    return made(lambda: client.semaphore(name, 1) if recipe == "semaphore" else getattr(client, recipe)(name))


def read(client: recipes.Client, name: str, limit: int, recipe: str = "lock") -> Queue:
    """Ask the store; within the client's request timeout."""
    with _strangers() as foreign:
        found = looked_at(client, recipe, name).contenders(limit=one_more(limit))
    return _queue(recipe, name, found, foreign, limit)


def follow(
    client: recipes.Client, name: str, limit: int, every_s: float, *, recipe: str = "lock", redrawn: bool
) -> Iterator[Queue]:
    """Yield the queue now, and after every change; where it is ``redrawn``, every ``every_s`` at least."""
    held = looked_at(client, recipe, name)
    with _strangers() as foreign, observe(held, limit=limit, every_s=every_s) as seen:
        found = next(seen)
        while True:
            yield _queue(recipe, name, found, foreign, limit)
            changed = seen.next(every_s if redrawn else None)
            found = found if changed is None else changed


def _queue(recipe: str, name: str, found: list[ContenderInfo], foreign: list[str], limit: int) -> Queue:
    strangers = tuple(dict.fromkeys(foreign))
    return Queue(name, tuple(found[:limit]), strangers, more=more_of(found, limit), recipe=recipe)


def one_more(limit: int) -> int:
    """Return how many to ask for, to see whether there are more than so many."""
    return min(limit + 1, READ_AT_ONCE)


def more_of(found: Sized, limit: int) -> bool:
    """Return whether there are more; there may be where as many were found as are ever read."""
    return len(found) > limit or len(found) == READ_AT_ONCE


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


def _ago(since: float) -> str:
    """Return a moment of a machine's wall clock, and how long ago that is by ours."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    seconds = max(time.time() - since, 0.0)
    return f"{clock} ({long(seconds)} ago)"


def long(seconds: float) -> str:
    """Return so many seconds as people read them: "3 min 12 s"."""
    whole = int(seconds)
    for larger, smaller, size, part in (
        ("d", "h", 86400, 3600),
        ("h", "min", 3600, 60),
        ("min", "s", 60, 1),
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {larger}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
