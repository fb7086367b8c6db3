"""What a queue showed after every write, and which moment justifies what was read of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipes._contract.contenders import Contender
from tests.simulation.standing import Stands
from tests.simulation.world import Violation

__all__ = ["History", "said"]


class History:
    """The states that a queue went through, each as the store itself knew it.

    Where a store reads a listing in two steps (ZooKeeper: the names, then what each says), some moment
    justifies which contenders it shows, and for each of them that moment or a later one what it says.

    Args:
        store: The model.
        queue: The queue.

    Attributes:
        states: What stood there; the last is what stands there now.
    """

    def __init__(self, store: Any, queue: str) -> None:
        self.states: list[tuple[Stands, ...]] = [()]
        self._store = store
        self._queue = queue
        self._at_once = store.name == "etcd"
        self._gone: set[str] = set()
        store.written.append(self._look)

    @property
    def now(self) -> int:
        """Which state it is in."""
        return len(self.states) - 1

    def _look(self) -> None:
        """Note what stands there now; what has gone never comes back, nor does what was said before."""
        before, found = self.states[-1], tuple(self._store.standing(self._queue))
        if found == before:
            return
        self.states.append(found)
        was = {one.contender: one for one in before}
        for one in found:
            if one.contender in self._gone:
                raise Violation(f"H1: {one.contender} stands again, after it had gone")
            earlier = was.pop(one.contender, None)
            if earlier is not None:
                self._goes_on(earlier, one)
        self._gone.update(was)

    def _goes_on(self, earlier: Stands, one: Stands) -> None:
        """A contender keeps its place when it is rewritten, and what it says comes in the order it was said."""
        if one.token != earlier.token or one.session != earlier.session:
            raise Violation(f"H1: {one.contender} was {earlier}, and is {one}: another place, or session")
        if one.data != earlier.data and _number(one.data) <= _number(earlier.data):
            raise Violation(f"H2: {one.data!r} landed behind {earlier.data!r}")

    def moment(self, shown: Sequence[Contender], most: int, since: int) -> int | None:
        """Return the first state from ``since`` on that shows this much of its head; None: there is none."""
        ids = [one.id for one in shown]
        for at in range(since, len(self.states)):
            head = self.states[at][:most]
            if [one.contender for one in head] == ids and self._says(shown, at):
                return at
        return None

    def _says(self, shown: Sequence[Contender], at: int) -> bool:
        upto = at + 1 if self._at_once else len(self.states)
        return all(
            any(_alike(one, stands) for state in self.states[at:upto] for stands in state) for one in shown
        )

    def landed(self, token: int, data: bytes, since: int) -> bool:
        """Whether a contender said this at some moment from state ``since`` on."""
        return any(
            one.token == token and one.data == data for state in self.states[since:] for one in state
        )


def _alike(shown: Contender, stands: Stands) -> bool:
    return (shown.id, shown.token, shown.data, shown.version) == (
        stands.contender,
        stands.token,
        stands.data,
        stands.version,
    )


def said(who: str, number: int) -> bytes:
    """Return what somebody says, for the so many-th time."""
    return f"{who}.{number}".encode()


def _number(data: bytes) -> int:
    number = data.rpartition(b".")[2]
    return int(number) if number else -1
