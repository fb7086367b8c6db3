"""The states of a session, found by trying everything that can happen to the program that keeps it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from recipes._contract.operations import Open, Opened, Renew, Renewal
from recipes._programs.hold import HeldState, StoreSession
from recipes._programs.session import SessionState, keep
from recipes._programs.steps import Abandon, Emit, Now, Wait
from recipes.errors import SessionLost, StoreUnavailable
from tests.docs.pictures.svg import BLUE, GREEN, GREY, INK, ORANGE, RED, Picture
from tests.programs.stepping import Protocol, entry

__all__ = ["Step", "edges", "picture"]

TTL_S = 15.0
GRANTED, NO_SESSION, ASKED = "the store grants a session", "the store grants none", "a call wants a session"
ANSWERED, UNANSWERED, ENDED = "a renewal is answered", "no answer", "the store says: ended"
LATE, ASLEEP, CLOSED = "an answer after the deadline", "stopped past the deadline", "close()"


@dataclass(frozen=True, slots=True)
class Step:
    """What led from one state to another, and what was told."""

    cause: str
    events: tuple[str, ...]


@dataclass
class Walk:
    """The keepalive loop, led by a list of choices; how it stands then."""

    now: float = 100.0
    board: SessionState = field(default_factory=SessionState)
    session: StoreSession | None = None
    told: list[str] = field(default_factory=list)
    op: Any = None
    over: bool = False

    def __post_init__(self) -> None:
        self.program: Any = keep(self.board, TTL_S, self._current)
        self._go_on(None)

    def _current(self) -> StoreSession:
        assert self.session is not None, "it is asked behind an Open"
        return self.session

    def _go_on(self, answer: Any) -> None:
        """Answer, and run to the next operation at which something can happen."""
        try:
            self.op = (
                self.program.throw(answer) if isinstance(answer, Exception) else self.program.send(answer)
            )
            while isinstance(self.op, Now | Emit | Abandon):
                if isinstance(self.op, Emit):
                    self.told.append(self.op.transition.event)
                self.op = self.program.send(self.now if isinstance(self.op, Now) else None)
        except StopIteration:
            self.over = True

    @property
    def state(self) -> str:
        """Its name in the picture."""
        if self.board.closed:
            return "closed"
        if self.board.refused is not None:
            return "refused"
        session = self.board.session
        if session is None or session.clock is None:
            return "starting"
        return "lost" if session.ended else session.clock.state(self.now)

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides on how it goes on."""
        clock = self.session.clock if self.session is not None and self.state in ("held", "suspect") else None
        due = () if clock is None else (clock.due, clock.suspect_at, clock.deadline)
        return (type(self.op), self.state, *(round(at - self.now, 2) for at in due))

    def choices(self) -> Iterator[str]:
        """Yield what can happen now."""
        yield CLOSED
        match self.op:
            case Open():
                yield from (GRANTED, NO_SESSION)
            case Renew():
                yield from (ANSWERED, UNANSWERED, ENDED, LATE)
            case Wait():
                yield from (ASKED,) if self.state == "refused" else ("time", ASLEEP)

    def choose(self, choice: str) -> None:
        """Have it happen."""
        if choice == CLOSED:
            self.board.closed = "the client was closed"
        self._go_on(self._answer(choice))

    def _answer(self, choice: str) -> Any:
        match self.op:
            case Open():
                return self._opened(choice)
            case Renew(within_s=within_s):
                self.now += {LATE: TTL_S, UNANSWERED: within_s}.get(choice, 0.0)
                error = StoreUnavailable("the store", "no answer")
                return {ENDED: SessionLost("ended"), UNANSWERED: error, CLOSED: error}.get(
                    choice, Renewal(TTL_S)
                )
            case Wait(at_most_s=at_most_s):
                self.now += {"time": at_most_s or 0.0, ASLEEP: TTL_S}.get(choice, 0.0)
                if choice == ASKED:
                    self.board.refused = None
        return None

    def _opened(self, choice: str) -> Any:
        if choice != GRANTED:
            return StoreUnavailable("the store", "no session")
        self.session = StoreSession(object(), Protocol())  # type: ignore[arg-type]
        self.session.holds["id-1"] = HeldState(
            entry(), self.session, "owner", self.now, {"name": "x", "recipe": "lock"}
        )
        return Opened("s1", TTL_S, self.now)


def edges() -> dict[tuple[str, str], set[Step]]:
    """Try everything from every situation that can be reached; returns what leads from where to where."""
    found: dict[tuple[str, str], set[Step]] = defaultdict(set)
    known: set[tuple[Any, ...]] = set()
    left: deque[tuple[str, ...]] = deque([()])
    while left:
        path = left.popleft()
        for choice in list(_led(path).choices()):
            walk = _led(path)
            before, told = walk.state, len(walk.told)
            walk.choose(choice)
            events = tuple(walk.told[told:])
            cause = UNANSWERED if choice == "time" and walk.state == "suspect" else choice
            if choice == "time" and "session.lost" in events:
                cause = UNANSWERED
            _note(found, before, walk.state, Step(cause, events))
            if not walk.over and walk.key not in known:
                known.add(walk.key)
                left.append((*path, choice))
    return found


def _led(path: tuple[str, ...]) -> Walk:
    walk = Walk()
    for choice in path:
        walk.choose(choice)
    return walk


def _note(found: dict[tuple[str, str], set[Step]], before: str, after: str, step: Step) -> None:
    if "session.lost" in step.events:
        found[before, "lost"].add(step)
        found["lost", "starting"].add(Step("next, a new session", ()))
    elif step.cause != "time" or before != after:
        found[before, after].add(step)


STATES = {
    "starting": ((170, 120), GREY, "no session yet"),
    "held": ((480, 120), GREEN, "grants are proven"),
    "suspect": ((880, 120), ORANGE, "proven, but in doubt"),
    "refused": ((170, 420), GREY, "waits to be asked"),
    "lost": ((680, 330), RED, "for ever"),
    "closed": ((480, 420), INK, "nothing is held"),
}
"""Where each state is drawn, its colour, and what it means."""
WAYS: dict[tuple[str, str], tuple[list[tuple[float, float]], tuple[float, float], str]] = {
    ("starting", "held"): ([(242, 120), (406, 120)], (324, 98), "middle"),
    ("starting", "refused"): ([(150, 146), (150, 392)], (144, 240), "end"),
    ("refused", "starting"): ([(185, 394), (185, 148)], (192, 350), "start"),
    ("starting", "closed"): ([(225, 146), (420, 392)], (364, 350), "end"),
    ("refused", "closed"): ([(242, 420), (406, 420)], (324, 412), "middle"),
    ("held", "held"): ([(440, 94), (440, 48), (520, 48), (520, 92)], (480, 50), "middle"),
    ("held", "suspect"): ([(552, 108), (806, 108)], (680, 76), "middle"),
    ("suspect", "held"): ([(808, 132), (554, 132)], (680, 147), "middle"),
    ("suspect", "suspect"): ([(840, 94), (840, 48), (920, 48), (920, 92)], (880, 50), "middle"),
    ("held", "lost"): ([(520, 146), (644, 302)], (604, 180), "start"),
    ("suspect", "lost"): ([(850, 146), (722, 302)], (796, 236), "start"),
    ("held", "closed"): ([(470, 146), (470, 392)], (462, 216), "end"),
    ("suspect", "closed"): ([(945, 146), (1060, 480), (760, 470), (554, 432)], (780, 476), "middle"),
    ("lost", "starting"): ([(608, 336), (440, 330), (280, 260), (212, 148)], (545, 353), "middle"),
}
"""How each transition is drawn, where its words stand, and how they lie."""


def picture() -> str:
    """Draw it."""
    found = edges()
    drawn = Picture(1040, 490, "The states of a session and what leads from one to another")
    drawn.words(
        (16, 26),
        "→ what is told; whatever is lost or closed is also ended on the store",
        colour=GREY,
        size=11.5,
    )
    for name, (at, colour, words) in STATES.items():
        drawn.box((at[0] - 72, at[1] - 26), (144, 52), edge=colour)
        drawn.words((at[0], at[1] - 3), name, colour=colour, size=15, anchor="middle", bold=True)
        drawn.words((at[0], at[1] + 15), words, colour=GREY, size=11, anchor="middle")
    for ends, steps in sorted(found.items()):
        assert ends in WAYS, (
            f"the session went from {ends[0]} to {ends[1]}, and the picture has no arrow for it"
        )
        points, at, anchor = WAYS[ends]
        drawn.arrow(points, colour=_colour(ends[1]))
        drawn.words(at, *_words(steps), size=10.5, anchor=anchor, clear=True)
    return drawn.text


def _colour(state: str) -> str:
    return {"lost": RED, "suspect": ORANGE, "held": GREEN, "starting": BLUE}.get(state, GREY)


def _words(steps: set[Step]) -> list[str]:
    """Return the causes, and then what is told."""
    causes = sorted({step.cause for step in steps})
    events = dict.fromkeys(
        event for step in sorted(steps, key=lambda step: step.cause) for event in step.events
    )
    return [*causes, *(f"→ {event}" for event in events)]
