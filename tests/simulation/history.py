"""What a queue showed after every write, and which moment justifies what was read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.standing import Given, Stands
from tests.simulation.world import Violation

__all__ = ["History", "Moment", "State", "said"]

State = tuple[Stands, ...]
Shown = Mapping[Any, Any]
"""What a queue looks like to users, in order: of a leader, or of each member, what it says."""


class Moment:
    """What justifies something that was shown: a state of the queue, and for each in it when it said that."""

    __slots__ = ("at", "said")

    def __init__(self, at: int = 0, said: dict[Any, int] | None = None) -> None:
        self.at = at
        self.said = said or {}


class History:
    """The states that a queue went through, each as the store itself knew it.

    Where a store reads a listing in two steps (ZooKeeper: the names, then what each says), some moment
    justifies who is shown, and for each of them some moment since the call what it says.

    Args:
        store: The model.
        queue: The queue.
        looks: What a state looks like, by the plain rule.
        removed: The tokens of contenders that were removed by hand, each with its queue.

    Attributes:
        states: What stood there; the last is what stands there now.
    """

    def __init__(
        self, store: Any, queue: str, looks: Callable[[State], Shown], removed: Mapping[Given, Any]
    ) -> None:
        self.states: list[State] = [()]
        self._shown: list[Shown] = [looks(())]
        self._store = store
        self._queue = queue
        self._looks = looks
        self._at_once = store.name == "etcd"
        self._gone: set[str] = set()
        self._removed = removed
        store.written.append(self._look)

    @property
    def now(self) -> int:
        """Which state it is in."""
        return len(self.states) - 1

    def _look(self) -> None:
        """Note what stands there now: what has gone never comes back, and all are of sessions that last."""
        before, found = self.states[-1], tuple(self._store.standing(self._queue))
        if found == before:
            return
        self.states.append(found)
        self._shown.append(self._looks(found))
        was = {one.contender: one for one in before}
        for one in found:
            if one.contender in self._gone and one.contender not in self._store.outlived:
                raise Violation(f"H1: {one.contender} stands again, after it had gone")
            if not self._store.has_session(one.session):
                raise Violation(f"H1: {one.contender} stands, and its session has ended")
            earlier = was.pop(one.contender, None)
            if earlier is not None:
                self._goes_on(earlier, one)
        # What was removed by hand while its create was in doubt is made again.
        gone = [one for one in was.values() if (self._queue, one.token) not in self._removed]
        self._gone.update(one.contender for one in gone)

    def _goes_on(self, earlier: Stands, one: Stands) -> None:
        """A contender keeps its place when it is rewritten, and never says what it said before."""
        if (one.token, one.session, one.kind) != (earlier.token, earlier.session, earlier.kind):
            raise Violation(f"H1: {one.contender} was {earlier}, and is {one}: another place, or session")
        if one.data != earlier.data and _number(one.data) <= _number(earlier.data):
            raise Violation(f"H2: {one.data!r} landed behind {earlier.data!r}")

    def moment(self, shown: Shown, since: Moment) -> Moment | None:
        """Return the first moment from that one on at which it looked so; None: there was none."""
        keys = list(shown)
        for at in range(since.at, len(self.states)):
            if list(self._shown[at]) == keys:
                first, upto = (at, at + 1) if self._at_once else (since.at, len(self.states))
                said = {
                    key: self._said(key, what, max(first, since.said.get(key, 0)), upto)
                    for key, what in shown.items()
                }
                if None not in said.values():
                    return Moment(at, said)  # type: ignore[arg-type]
        return None

    def _said(self, key: Any, what: Any, first: int, upto: int) -> int | None:
        """Return when this said that first."""
        return next((at for at in range(first, upto) if self._shown[at].get(key) == what), None)

    def landed(self, token: int, data: bytes, since: int) -> bool:
        """Whether a contender said this at some moment from state ``since`` on."""
        return any(one.token == token and one.data == data for state in self.states[since:] for one in state)


def said(who: str, number: int) -> str:
    """Return what somebody says, for the so many-th time."""
    return f"{who}.{number}"


def _number(data: bytes) -> int:
    number = data.rpartition(b".")[2]
    return int(number) if number.isdigit() else -1
