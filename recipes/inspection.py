"""Looking at a lock from outside: who holds it and who waits, as the store shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from recipes._api.observing import Observing
from recipes._programs.observing import Observed
from recipes._rules.holding import granted
from recipes._rules.registry import rule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from recipes._contract.contenders import Contender

__all__ = ["ContenderInfo"]

MOST = 10_000
LATEST = 4e9  # seconds of the epoch: what a calendar can show


@dataclass(frozen=True, slots=True)
class ContenderInfo:
    """Somebody in the queue of a lock, at the moment at which the store was asked.

    Attributes:
        lock: The lock's name.
        position: How many are ahead.
        holds: Whether it holds the lock as the store shows it; it may not know yet, or have given
            it up by its own clock already.
        mode: "exclusive" or "shared" (a reader, a writer that downgraded, or what holds permits).
        token: The fencing token that it has, or will have; None of what takes permits, and of a
            holder of which the store does not say it.
        mine: Whether it belongs to the session of the client that looks.
        ours: Whether it is of this package's layout; of others nothing else is known than what is here.
        session: The store's id of its session in hexadecimal; empty where it is not shown.
        key: Its node, key or row.
        owner: The label that its client gave as ``connect(owner=...)``; None without. Of other clients'
            contenders the text that they left, if they did (kazoo's ``identifier``).
        host: The name of its machine; None unless its client was given an ``owner``.
        pid: Its process; None likewise.
        since: When it joined the queue, by the wall clock of its machine, in seconds since 1970;
            None likewise.
        id: What names it where it has no token, in a semaphore; empty for other clients' contenders.
        weight: How many permits it takes; None outside of semaphores.
        data: What its user has it say, as bytes: an election's value; a member's id and data, one line each.
    """

    lock: str
    position: int
    holds: bool
    mode: Literal["exclusive", "shared"]
    token: int | None
    mine: bool
    ours: bool
    session: str
    key: str
    owner: str | None = None
    host: str | None = None
    pid: int | None = None
    since: float | None = None
    id: str = ""
    weight: int | None = None
    data: bytes = b""


def checked_limit(limit: int, named: str = "limit", least: int = 1) -> int:
    """Return how many to read, of what is ``named`` so.

    Raises:
        ValueError: None, or too many.
        TypeError: It is no whole number.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"{named} is a whole number, not {type(limit).__name__}")
    if not least <= limit <= MOST:
        raise ValueError(f"{named}={limit}: from {least} to {MOST} are read at once")
    return limit


def described(lock: str, contenders: Iterable[Contender], session: str | None) -> list[ContenderInfo]:
    """Return what users see of a queue, read from its head on."""
    queue = list(contenders)
    holding = granted(queue)
    return [
        _described(lock, position, one, holds=holds, session=session)
        for position, (one, holds) in enumerate(zip(queue, holding, strict=True))
    ]


def observe(held: Any, *, limit: int, every_s: float) -> Observing[list[ContenderInfo]]:
    """Return what shows a queue's head now, and after every change; ends if the store does not answer.

    Args:
        held: A lock, or whatever is held in a queue.
        limit: How many contenders are read.
        every_s: The longest pause between two looks, in seconds.
    """
    runtime, queue = held._runtime, held._queue  # noqa: SLF001 - the two are one

    def shown(contenders: Iterable[Contender]) -> list[ContenderInfo]:
        session = runtime.state.session
        return described(held.name, contenders, None if session is None else session.id)

    return Observing(runtime, Observed(queue, checked_limit(limit), every_s, fail_fast=True), shown)


def _described(
    lock: str, position: int, contender: Contender, *, holds: bool, session: str | None
) -> ContenderInfo:
    ours, rule = bool(contender.id), rule_of(contender.kind)
    return ContenderInfo(
        lock,
        position,
        holds,
        "shared" if contender.downgraded else rule.mode,
        (contender.token or None) if rule.weight is None else None,
        bool(session) and contender.session == session,
        ours,
        contender.session,
        contender.ref,
        id=contender.id,
        weight=rule.weight,
        data=contender.data,
        **_identity(contender.owner, ours=ours),
    )


def _identity(owner: str, *, ours: bool) -> dict[str, Any]:
    """Return what a contender says of its maker; anybody may have written it."""
    if not ours:
        return {"owner": owner if owner.isprintable() and owner else None}
    import json  # noqa: PLC0415 - few say who made them

    try:
        said = json.loads(owner)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: said[name] for name, is_sound in _SOUND.items() if is_sound(said.get(name))}


def _is_shown(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


_SOUND: dict[str, Callable[[Any], bool]] = {
    "owner": _is_shown,
    "host": _is_shown,
    "pid": lambda value: isinstance(value, int),
    "since": lambda value: isinstance(value, float) and 0 <= value < LATEST,
}
