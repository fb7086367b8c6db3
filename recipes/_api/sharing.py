"""What the partitions of a membership are in both runtimes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from recipes._contract.deadline import Deadline, duration
from recipes._contract.names import encode, queue_of
from recipes._contract.wakeups import Event
from recipes._programs.observing import Observed, Observer, Over, Topic
from recipes._programs.queueing import Attempt
from recipes._programs.sharing import Partitioning, closed, share
from recipes._rules.exclusive import EVERYBODY, EXCLUSIVE
from recipes._run.runtime import new_id
from recipes.errors import StoreUnavailable
from recipes.grant import _BaseGrant

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._programs.sharing import Portion
    from recipes._run.runtime import Call

__all__ = ["Assignment", "BasePartitions", "BaseSharing"]

RECIPE = "partition"
AnyGrant = TypeVar("AnyGrant")


class Assignment(Mapping[str, AnyGrant]):
    """The items that are this member's at one time, each with its grant.

    Attributes:
        new: Those of them that the assignment before did not have, or had with another grant.
        leaving: Those of the assignment before that are another member's from now on: stop working on them.
            Each is held until its grant is released, or until the next assignment is asked for.
    """

    __slots__ = ("_grants", "leaving", "new")

    def __init__(
        self,
        grants: Mapping[str, AnyGrant],
        leaving: Mapping[str, AnyGrant],
        before: Mapping[str, AnyGrant],
    ) -> None:
        self._grants = grants
        self.leaving = leaving
        self.new = {item: grant for item, grant in grants.items() if before.get(item) is not grant}

    def __getitem__(self, item: str) -> AnyGrant:
        return self._grants[item]

    def __iter__(self) -> Iterator[str]:
        return iter(self._grants)

    def __len__(self) -> int:
        return len(self._grants)

    def __repr__(self) -> str:
        return f"<Assignment: {len(self)} items, {len(self.new)} new, {len(self.leaving)} leaving>"


class BasePartitions(ABC, Generic[AnyGrant]):
    """What partitions are in both runtimes: everything that waits for nothing."""

    def __init__(self, membership: Any, items: Iterable[str]) -> None:
        self._membership = membership
        self._runtime = membership._runtime  # noqa: SLF001 - the two are one
        self._hold: HeldState = membership._hold  # noqa: SLF001 - the two are one
        group = encode(membership.name)  # which has no slash: so no two groups have the same names
        self._names = {item: f"{group}/{item}" for item in _checked(items)}
        self._queues = {item: queue_of(RECIPE, name) for item, name in self._names.items()}
        lost = membership._lost_error  # noqa: SLF001 - the two are one
        pause_s = self._runtime.sharing_pause_s
        self._parts = Partitioning(
            tuple(self._names), self._hold, self._attempt, self._noted, lost, pause_s=pause_s
        )
        self._parts.topic.restart = self._run_again
        self._begun: tuple[Observer, Call, Call] | None = None
        self._given: tuple[int, Assignment[AnyGrant]] = 0, Assignment({}, {}, {})
        before: BasePartitions[AnyGrant] | None = membership._partitions  # noqa: SLF001 - the two are one
        if self._hold.lost(self._runtime.now()) is not None:
            raise lost()
        if before is not None and before._active:  # noqa: SLF001 - one of this class
            if before._parts.closing:  # noqa: SLF001 - one of this class
                before._parts.topic.go_on()  # noqa: SLF001 - one of this class
                said = "what was closed of this membership is not all given back yet; ask again soon"
                raise StoreUnavailable(self._runtime.backend.label, said, unsent=True)
            raise RuntimeError("this membership shares items already; close its partitions first")
        membership._partitions = self  # noqa: SLF001 - the two are one

    @abstractmethod
    def _granted(self, hold: HeldState) -> Any:
        """Return the grant."""

    @property
    def _active(self) -> bool:
        return self._begun is not None and not self._parts.over

    def _attempt(self, item: str) -> Attempt:
        labels = {
            "name": self._names[item],
            "recipe": RECIPE,
            "mode": EXCLUSIVE.mode,
            "store": self._runtime.backend.label,
        }
        attempt = Attempt(self._queues[item], EXCLUSIVE, new_id, labels)
        attempt.requeues, attempt.seldom, attempt.owner = False, True, self._runtime.note
        return attempt

    def _noted(self, hold: HeldState) -> None:
        """Make the grant, and have its end noticed."""
        assert self._begun is not None, "what holds has begun"
        self._granted(hold).lost._waiting.append(self._begun[2].mailbox)  # noqa: SLF001 - the three are one

    def _begin(self) -> tuple[Observer, Call]:
        """Have the program run that holds the items, from the first assignment on that is asked for."""
        if self._begun is None:
            if self._membership._partitions is not self:  # noqa: SLF001 - the two are one
                if self._parts.closing:  # by another thread, meanwhile
                    raise Over
                raise RuntimeError("this membership has made other partitions since; use those")
            runtime, hub = self._runtime, self._runtime.hub
            asking, behind = runtime.call(None, None), runtime.call(self._hold.owner, None)
            behind.session, behind.lasting = self._hold.session, True
            observed = Observed(self._hold.entry.ticket.queue, EVERYBODY.depth)
            members = hub.join(observed, behind.mailbox)
            observer = Observer(self._parts.topic, asking.mailbox)
            self._parts.topic.add(observer)
            ends = self._membership.lost._waiting  # noqa: SLF001 - the two are one

            def over() -> None:
                if behind.mailbox in ends:
                    ends.remove(behind.mailbox)
                hub.leave(observed, members)

            self._parts.on_over = over
            self._members = members
            ends.append(behind.mailbox)
            self._begun = observer, asking, behind
            try:
                runtime.run_behind(share(self._parts, members), behind)
            except BaseException:  # no thread can be started, or an interrupt: then it may run all the same
                self._parts.closing = True
                if self._parts.claim("its caller"):
                    self._parts.end()
                self._wake()
                raise
        return self._begun[:2]

    def _run_again(self, topic: Topic) -> None:
        """Have the program go on that other code has ended."""
        assert self._begun is not None, "what has lapsed had begun"
        behind = self._runtime.call(self._hold.owner, None)
        behind.mailbox, behind.session, behind.lasting = self._begun[2].mailbox, self._hold.session, True
        self._begun = *self._begun[:2], behind
        self._runtime.run_behind(share(self._parts, self._members), behind)

    def _next(self, timeout: float | None) -> tuple[Program[tuple[int, Portion]], Call]:
        """Return what waits for the next portion; those that were leaving in the last one go."""
        within_s = duration("timeout", timeout)
        if self._parts.closing:
            raise Over
        if self._hold.lost(self._runtime.now()) is not None:
            raise self._membership._lost_error()  # noqa: SLF001 - the two are one
        if self._hold.released:
            raise Over
        observer, call = self._begin()
        self._wake()
        call.deadline = Deadline.after(within_s, self._runtime.now())
        return observer.next(self._given[0]), call

    def _assigned(self, found: tuple[int, Portion]) -> Assignment[AnyGrant]:
        number, portion = found
        before = self._given[1]  # there may have been portions in between, which nobody asked for
        leaves = portion.leaving.items()
        leaving: dict[str, Any] = {item: grant for item, grant in leaves if before.get(item) is grant}
        assignment = Assignment(portion.items, leaving, before)
        self._given = number, assignment  # last: what an interrupt takes away before is assigned again
        return assignment

    def _wake(self) -> None:
        self._parts.stepped = self._given[0]
        if self._begun is not None:
            self._begun[2].mailbox.post(Event())

    def _leave(self) -> None:
        """The member is released; whatever becomes of that, its user has ended its work."""
        self._parts.left = True
        with suppress(RuntimeError):  # no thread can be started, which keeps nobody from leaving
            self._parts.topic.go_on()
        self._wake()

    def _closing(self) -> tuple[Program[None], Call] | None:
        """Have everything given back; returns what waits for that, unless there is nothing to wait for."""
        self._parts.closing = True
        self._parts.topic.go_on()
        self._wake()
        if not self._active or self._hold.lost(self._runtime.now()) is not None:
            return None
        call: Call = self._runtime.call(None, self._runtime.settings.request_timeout_s)
        self._parts.closers.append(call.mailbox)
        return closed(self._parts), call


class BaseSharing(_BaseGrant):
    """What a membership that may share items is in both runtimes."""

    _partitions: Any = None

    def _releasing(self, call: Call) -> Call:
        if self._partitions is not None:
            self._partitions._leave()  # noqa: SLF001 - the two are one
        return super()._releasing(call)


def _checked(items: Iterable[str]) -> list[str]:
    if isinstance(items, str):
        raise TypeError("items are several names, and not one str")
    named = list(items)
    for item in named:
        encode(item)
    if len({*named}) < len(named):
        raise ValueError("an item is named twice")
    return named
