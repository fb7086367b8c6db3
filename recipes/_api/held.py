"""Held things: what every recipe that queues and is held shares in both runtimes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from recipes._contract.deadline import duration
from recipes._contract.names import queue_of
from recipes._contract.operations import List
from recipes._contract.rule import Rule
from recipes._programs.hold import SHARED
from recipes._programs.observing import evict
from recipes._programs.queueing import Attempt, acquire, at_once, tell_end, try_acquire
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run.runtime import new_id
from recipes.errors import LockTimeout, StoreTimeout, StoreUnavailable, UpgradeError, WouldDeadlock
from recipes.events import titled
from recipes.guarantees import Need, require
from recipes.inspection import MOST, checked_limit, described

if TYPE_CHECKING:
    from recipes._api.options import AcquireOptions, OnPosition
    from recipes._contract.contenders import Ahead
    from recipes._contract.operations import Listing, Program
    from recipes._programs.hold import HeldState
    from recipes._run.runtime import Call
    from recipes.inspection import ContenderInfo

__all__ = ["Acquired", "Held"]

SHORTEST_HOLD_S = 0.1
SHORTEST_TRY_S = 0.05


def _calling(in_turn: Callable[[Callable[[], object]], None], callback: OnPosition) -> Callable[[int], None]:
    """Return what has a user's callback called where it may block, after those before it."""
    return lambda position: in_turn(partial(callback, position))


def _is_of(hold: HeldState, owner: object) -> bool:
    """Whether this thread or task holds it; of a re-entrant lock each grant may be entered by another."""
    return hold.owner is owner or any(grant._hold.owner is owner for grant in hold.grants)  # noqa: SLF001 - one of us


class Acquired(ABC):
    """What is acquired, in one queue or in several, in both runtimes."""

    _recipe: ClassVar[str] = "lock"
    _needs: ClassVar[tuple[Need, ...]] = ()
    """What a store has to give, beside a queue."""
    _runtime: Any
    _queues: tuple[str, ...]

    def __init__(self, runtime: Any, name: str) -> None:
        if self._needs:
            require(self._needs, runtime.backend.guarantees, runtime.backend.label)
        self._runtime = runtime
        self._name = name
        self._entered: dict[object, list[Any]] = {}

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self._name

    def _late(
        self, timeout_s: float, position: int | None = None, silent: BaseException | None = None
    ) -> LockTimeout:
        """Return what is raised when the time is over; ``silent`` says why there is no answer, if so."""
        if isinstance(silent, StoreUnavailable):
            return StoreTimeout(self._name, timeout_s, position, silent=silent, recipe=self._recipe)
        return LockTimeout(self._name, timeout_s, position, recipe=self._recipe)

    def _within(self, timeout: float | None) -> float:
        """Return how many seconds a try may take."""
        given = duration("timeout", timeout, least=SHORTEST_TRY_S)
        within: float = self._runtime.settings.request_timeout_s if given is None else given
        return within

    def _again(self, owner: object) -> Any:
        """Return a grant of what this owner holds already, if it may have that again."""
        return None

    @abstractmethod
    def _refuse_deadlock(self, owner: object) -> None:
        """Raise if waiting would be for a grant of the same thread or task, and that is held."""

    @abstractmethod
    def _acquisition(self, call: Call, options: AcquireOptions) -> Program[Any]:
        """Return the program that waits until it is granted."""

    @abstractmethod
    def _trial(self, call: Call, options: AcquireOptions) -> Program[Any]:
        """Return the program that takes it if it is free; None if not."""

    @abstractmethod
    def _granted(self, granted: Any) -> Any:
        """Return the grant of what such a program returned."""

    def _enter(self, owner: object, grant: Any) -> None:
        self._entered.setdefault(owner, []).append(grant)

    def _entered_by_all(self) -> list[Any]:
        """Return what was entered, by any owner.

        A generator may be closed, and a fixture ended, by another thread or task than the one that began it.
        """
        return [grant for entered in list(self._entered.values()) for grant in list(entered)]

    def _not_entered(self) -> RuntimeError:
        words = (
            "was not entered by this thread or task; enter what acquire() returns instead: "
            "such a block may be left by any"
        )
        return RuntimeError(f"{titled(self._recipe, self._name)} {words}")

    def _forget(self, owner: object, grant: Any) -> None:
        """Note that this owner has left it, or did not come to enter it."""
        entered = self._entered.get(owner)
        if entered is None:
            return
        if grant in entered:
            entered.remove(grant)
        if not entered:
            self._entered.pop(owner, None)  # a signal handler may have entered and left it in between

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} on {self._runtime.backend.label}>"


class Held(Acquired):
    """What is held in a queue, in both runtimes: everything that waits for nothing.

    A recipe says what it is by the attributes below; its rule may be another for each object.
    """

    _rule: Rule = EXCLUSIVE
    _grant: Any

    def __init__(self, runtime: Any, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(runtime, name)
        self._queue = queue_of(self._recipe, name)
        runtime.backend.check_name(self._queue)
        self._queues = (self._queue,)
        self._max_hold_s = duration("max_hold", max_hold, least=SHORTEST_HOLD_S)

    def _attempt(self, owner: object, options: AcquireOptions) -> Attempt:
        if options.needs_queue:
            self._need_queue()
        labels: dict[str, Any] = {
            "name": self._name,
            "recipe": self._recipe,
            "mode": self._rule.mode,
            "store": self._runtime.backend.label,
        }
        if self._rule.weight is not None:
            labels["weight"] = self._rule.weight

        before_waiting = partial(self._before_waiting, owner)
        attempt = Attempt(self._queue, self._rule, new_id, labels, options.timeout, before_waiting)
        attempt.max_hold_s = self._max_hold_s
        attempt.owner = self._runtime.note
        attempt.max_waiters = options.max_waiters
        attempt.data = options.data
        attempt.late = self._late
        attempt.requeues = options.on_session_lost == "requeue"
        if options.calls_back:
            in_turn = self._runtime.in_turn()
            if options.on_queued is not None:
                attempt.on_queued = _calling(in_turn, options.on_queued)
            if options.on_position is not None:
                attempt.on_position = _calling(in_turn, options.on_position)
        return attempt

    def _shares_queue(self, other: Any) -> bool:
        """Whether something else that is acquired, or a grant, is of the same client and queue."""
        return self._queue in other._queues and other._runtime is self._runtime  # noqa: SLF001

    def _list(self, limit: int) -> List:
        return List(self._queue, checked_limit(limit))

    def _need_queue(self) -> None:
        """Refuse what needs to see those that wait, before any I/O."""
        require("fair", self._runtime.backend.guarantees, self._runtime.backend.label)

    def _all_that_may_block(self) -> List:
        """Return what to read to know whether this would have to wait: the head of the queue, as a rule."""
        some_do_not_count = self._rule.exclusive_only or self._rule.own_kind_only
        return List(self._queue, MOST if some_do_not_count else min(self._rule.depth, MOST))

    def _blocked_by(self, listing: Listing) -> bool:
        return bool(self._rule.blockers(tuple(reversed(listing.contenders))))

    def _described(self, listing: Listing) -> list[ContenderInfo]:
        session = self._runtime.state.session
        return described(self._name, listing.contenders, None if session is None else session.id)

    def _eviction(self, named: int | str) -> Program[bool]:
        self._need_queue()
        no_token = isinstance(named, str) and named.isdecimal() and self._grant._fences  # noqa: SLF001 - one package
        if no_token or isinstance(named, bool) or not isinstance(named, int | str):
            raise TypeError(f"a token is a whole number, and an id is the text that is shown, not {named!r}")
        return evict(self._queue, named, MOST)

    def _held_by(self, owner: object) -> list[HeldState]:
        """Return what this owner holds in this queue: what it acquired, and what it was handed a grant of."""
        now = self._runtime.now()
        held = self._runtime.held_in(self._queue)
        return [hold for hold in held if _is_of(hold, owner) and hold.remaining(now) > 0]

    def _deadlock(self, mine: list[HeldState]) -> WouldDeadlock:
        last = mine[-1]
        upgrades = self._rule.mode != SHARED and last.mode == SHARED
        token = last.entry.token if self._rule.weight is None else None
        return (UpgradeError if upgrades else WouldDeadlock)(self._name, token, recipe=self._recipe)

    def _refuse_deadlock(self, owner: object) -> None:
        """Raise if waiting would be for a grant of the same thread or task, and that is held."""
        mine = self._held_by(owner)
        if self._rule.blockers(tuple(hold.contender for hold in reversed(mine))):
            raise self._deadlock(mine)

    def _before_waiting(self, owner: object, waiting: Ahead) -> bool:
        """Raise if what turns out to have to wait would wait for ever; returns whether the owner holds."""
        mine = self._held_by(owner)
        if self._rule.stuck(tuple(hold.contender for hold in mine), waiting):
            raise self._deadlock(mine)
        self._refuse_waiting_for_oneself()
        return bool(mine)

    def _refuse_waiting_for_oneself(self) -> None:
        """Raise if what would wait was asked amid an acquire that it waits for."""

    def _acquisition(self, call: Call, options: AcquireOptions) -> Program[HeldState]:
        return acquire(self._attempt(call.owner, options))

    def _trial(self, call: Call, options: AcquireOptions) -> Program[HeldState | None]:
        attempt = self._attempt(call.owner, options)
        trial = try_acquire(attempt)
        return at_once(trial, partial(tell_end, attempt)) if options.timeout == 0 else trial

    def _again(self, owner: object) -> Any:
        hold = self._reenter(owner)
        if hold is None:
            return None
        try:
            return self._grant_of(hold)
        except BaseException:
            self._runtime.give_back(hold)  # nobody else would leave it
            raise

    def _may_reenter(self, owner: object) -> bool:
        """Whether this owner holds it, and may have that again."""
        return False

    def _reenter(self, owner: object) -> HeldState | None:
        """Enter what this owner holds already, if it may have that again."""
        return None

    def _grantable(self, hold: HeldState) -> HeldState:
        """Return what the grant is made of."""
        return hold

    def _granted(self, granted: HeldState) -> Any:
        return self._grant_of(self._grantable(granted))

    @abstractmethod
    def _grant_of(self, hold: HeldState) -> Any:
        """Return a grant of what is held."""
