"""What the membership of a group is in both runtimes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from recipes._api.held import Held
from recipes._api.options import AcquireOptions
from recipes._contract.operations import List
from recipes._programs.observing import Observed, look_up
from recipes._rules.exclusive import EVERYBODY
from recipes._rules.members import member, member_of, new_member, pack, unpack
from recipes._rules.roster import members
from recipes._run.runtime import new_id
from recipes.errors import AlreadyJoined, LockTimeout

if TYPE_CHECKING:
    from recipes._contract.contenders import Contender
    from recipes._contract.operations import Listing, Program
    from recipes._programs.hold import HeldState
    from recipes._programs.queueing import Attempt
    from recipes.guarantees import Need

__all__ = ["ALL", "BaseGroup", "BaseMembership", "Member", "said", "shown"]

ALL = EVERYBODY.depth
"""So many of a group are read: all, for a list with members missing would look like a whole one."""
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group: its id, and the data with which it joined, or that it said since."""

    id: str
    data: bytes = b""


def _checked(data: bytes) -> bytes:
    """Return what a user wants a member to say.

    The limit leaves room, below the 1 048 575 bytes that a ZooKeeper takes by default, for the id, the owner
    and the path; etcd takes 1.5 MiB.

    Raises:
        TypeError: It is no ``bytes``.
        ValueError: It is too long.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"data is bytes, not {type(data).__name__}")
    if len(data) > MOST_BYTES:
        raise ValueError(f"data has {len(data)} bytes, and {MOST_BYTES} at most are allowed")
    return data


class BaseMembership:
    """What a membership is in both runtimes."""

    _hold: HeldState

    @property
    def member_id(self) -> str:
        """The member's id in the group; ``id`` is that of its contender in the store."""
        return self._said[0]

    @property
    def data(self) -> bytes:
        """What it says of itself, as far as the store has confirmed it."""
        return self._said[1]

    @property
    def _said(self) -> tuple[str, bytes]:
        said = unpack(self._hold.data)
        assert said is not None, "it was packed as it joined"
        return said

    def _saying(self, data: bytes) -> bytes:
        return pack(self.member_id, _checked(data))


class BaseGroup(Held):
    """What a group is in both runtimes."""

    _recipe: ClassVar[str] = "group"
    _needs: ClassVar[tuple[Need, ...]] = ("shared",)
    _member_id = ""

    def __init__(self, runtime: Any, name: str, **options: Any) -> None:
        super().__init__(runtime, name, **options)
        self._again_with = options

    def _joining(self, member_id: str | None) -> Self:
        """Return this group as the member with this id, or a new one, joins it."""
        other = type(self)(self._runtime, self._name, **self._again_with)
        other._member_id = new_id() if member_id is None else member_id  # noqa: SLF001 - one of its own
        rule = new_member if member_id is None else member
        other._rule = rule(other._member_id)  # noqa: SLF001 - one of its own
        return other

    def _attempt(self, owner: object, options: AcquireOptions) -> Attempt:
        attempt = super()._attempt(owner, options)
        attempt.rule_again = member_of(self._rule.kind)  # that of the session before may still be there
        return attempt

    def _saying(self, data: bytes, timeout: float | None) -> AcquireOptions:
        return AcquireOptions(timeout, data=pack(self._member_id, _checked(data)))

    def _late(
        self, timeout_s: float, position: int | None = None, silent: BaseException | None = None
    ) -> LockTimeout:
        """Return why it could not join: there was another, unless the store has not answered."""
        if silent is not None or not position:
            return super()._late(timeout_s, position, silent)
        return AlreadyJoined(self._name, self._member_id, timeout_s, position)

    def _observed(self) -> Observed:
        return Observed(self._queue, ALL)

    def _looking(self) -> Program[Listing]:
        return look_up(List(self._queue, ALL))


def shown(contenders: tuple[Contender, ...]) -> tuple[Member, ...]:
    """Return what users see of a group's queue."""
    return tuple(Member(one.id, one.data) for one in members(contenders))


def said(data: bytes) -> Member | None:
    """Return the member that says this, also while it waits for its id; None: a member says no such thing."""
    found = unpack(data)
    return None if found is None else Member(*found)
