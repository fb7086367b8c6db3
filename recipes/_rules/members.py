r"""What blocks a member of a group: the members ahead that have the same id, and no others.

An id has one member at a time: the next under that id waits until the session of the one before has ended.
The kind is made of a hash of the id, for a kind is short and of few characters. So of two ids with the same
60 bits one would wait for the other; among 10 000 ids the chance of that is 1 in 10 ** 10.
The id itself is the first line of the data, encoded as a name is: ``<id>\n<data>``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from recipes._contract.contenders import Ahead
from recipes._contract.names import decode, encode
from recipes._contract.rule import Rule
from recipes._record import record
from recipes._rules.exclusive import EVERYBODY

__all__ = ["member", "member_of", "new_member", "pack", "unpack"]

_KIND = re.compile(r"M(0|[1-9][0-9]{0,18})")


def member(member_id: str) -> Rule:
    """Return the rule of the member with this id; it has to look at all that are ahead.

    Raises:
        TypeError, ValueError: The id does not fit, as a name.
    """
    import hashlib  # noqa: PLC0415 - slow to import, and few join a group

    hashed = hashlib.sha256(_encoded(member_id)).digest()
    return _rule(f"M{int.from_bytes(hashed[:8]) >> 4}")


def new_member(member_id: str) -> Rule:
    """Return the rule of a member whose id nobody else has: it need not look at all ahead.

    It looks at two, and not at one: where a comparison can show that nobody is ahead, a store may compare.
    """
    return replace(member(member_id), depth=2)


@lru_cache(maxsize=4096)
def member_of(kind: str) -> Rule | None:
    """Return the rule of a kind; None if it is not one of a member."""
    return _rule(kind) if _KIND.fullmatch(kind) else None


def pack(member_id: str, data: bytes) -> bytes:
    """Return what a member says to others."""
    return _encoded(member_id) + b"\n" + data


def unpack(said: bytes) -> tuple[str, bytes] | None:
    """Return the id and the data of a member; None if that is nothing that a member says."""
    first, line_end, data = said.partition(b"\n")
    member_id = decode(first.decode("ascii", "replace")) if line_end else None
    return None if member_id is None else (member_id, data)


def _encoded(member_id: str) -> bytes:
    try:
        return encode(member_id).encode()
    except (TypeError, ValueError) as error:
        raise type(error)(f"id: {error}") from None


@record
class _Holds:
    """Whether the owner of what would wait is the member that it waits for; under another id it may wait."""

    kind: str

    def __call__(self, held: Ahead, waiting: Ahead) -> bool:
        del waiting  # they wait for the same
        return any(contender.kind == self.kind for contender in held)


def _rule(kind: str) -> Rule:
    return Rule(kind, depth=EVERYBODY.depth, own_kind_only=True, stuck=_Holds(kind))
