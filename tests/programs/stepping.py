"""Drives a program by hand: answers its operations from a script, and keeps what it asked."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from recipes._contract.contenders import Contender
from recipes._contract.operations import Entry, Snapshot, Ticket
from recipes._programs.hold import StoreSession
from recipes._programs.steps import Abandon, Admit, Emit, Now
from recipes.events import Transition


@dataclass
class Played:
    """What became of a program."""

    ops: list[Any] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None

    @property
    def kinds(self) -> list[str]:
        return [type(op).__name__ for op in self.ops]

    @property
    def told(self) -> list[Transition]:
        return [op.transition for op in self.ops if isinstance(op, Emit)]

    @property
    def events(self) -> list[str]:
        return [one.event for one in self.told]

    @property
    def abandoned(self) -> list[Ticket | None]:
        return [op.ticket for op in self.ops if isinstance(op, Abandon)]

    def only(self, kind: type) -> Any:
        found = [op for op in self.ops if isinstance(op, kind)]
        assert len(found) == 1, f"{len(found)} operations are {kind.__name__}: {self.kinds}"
        return found[0]


class Script:
    """Answers by kind of operation.

    A list is used up from its front, its last entry for ever; a callable is asked with the
    operation; an exception is thrown in; anything else is the answer.
    """

    def __init__(self, **answers: Any) -> None:
        self._answers = {kind: list(a) if isinstance(a, list) else [a] for kind, a in answers.items()}

    def __call__(self, op: Any) -> Any:
        kind = type(op).__name__
        if kind not in self._answers:
            if isinstance(op, Now):
                return 100.0
            assert isinstance(op, Emit | Abandon), f"the script does not know {op!r}"
            return None
        left = self._answers[kind]
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(op) if callable(answer) else answer


def play(
    program: Generator[Any, Any, Any],
    script: Callable[[Any], Any],
    *,
    fail_at: int | None = None,
    error: BaseException | None = None,
    most: int = 200,
) -> Played:
    """Run a program to its end; at operation number ``fail_at`` throw ``error`` instead of an answer."""
    played = Played()
    try:
        op = program.send(None)
        for number in range(most):
            played.ops.append(op)
            answer: Any = error if number == fail_at else script(op)
            op = program.throw(answer) if isinstance(answer, BaseException) else program.send(answer)
    except StopIteration as stop:
        played.result = stop.value
    except BaseException as raised:
        played.error = raised
    else:
        raise AssertionError(f"the program goes on and on: {played.kinds}")
    return played


def advance(program: Generator[Any, Any, Any], script: Callable[[Any], Any], count: int) -> Any:
    """Answer ``count`` operations; returns the one the program stands at then."""
    op = program.send(None)
    for _ in range(count):
        op = program.send(script(op))
    return op


def ticket(number: int = 1, kind: str = "lock") -> Ticket:
    return Ticket("q", kind, f"id-{number}", minds_marks=kind == "R")


def entry(number: int = 1, token: int = 7) -> Entry:
    return Entry(ticket(number), f"q/id-{number}", token)


def others(*refs: str) -> tuple[Contender, ...]:
    """Contenders ahead, nearest first."""
    return tuple(Contender(ref, id=f"id of {ref}") for ref in refs)


def snapshot(*refs: str, mine: Entry | None = None, complete: bool = True, as_of: int = 0) -> Snapshot:
    return Snapshot(mine or entry(), others(*refs), complete, len(refs), as_of)


GONE = Snapshot(None, (), complete=True, position=0)


class Protocol:
    """What `StoreSession` reads of a store's protocol."""

    lives_on = False
    renewals_per_ttl = 3
    renewal_lag = 0
    renews_on_a_beat = False
    hands_on = True


def session(ttl_s: float | None = 15.0, sent_at: float = 100.0) -> StoreSession:
    made = StoreSession(object(), Protocol())  # type: ignore[arg-type]
    if ttl_s is not None:
        made.begin("s1", ttl_s, sent_at)
    return made


def admitted(at: StoreSession, now: float = 100.0) -> Callable[[Admit], Any]:
    """Answer `Admit` as the runtime does."""
    from recipes._programs.hold import HeldState

    def admit(op: Admit) -> HeldState:
        hold = HeldState(op.entry, at, "owner", now, op.labels, max_hold_s=op.max_hold_s)
        at.take_up(hold)
        return hold

    return admit
