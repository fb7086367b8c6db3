r"""What a contender's value says, where a store keeps one value for each: its mark, its owner, its data.

In the queue of a lock it is ``<mark>\n<owner>``, in those of other recipes ``<mark>\n<owner>\n<data>``, and
in an election's the data alone, as other clients of elections write it. A mark and an owner hold no
line end. Without one it is what versions before this wrote in a lock's queue: ``downgraded``, if that
was so, and the owner right behind it. Those versions still see a mark in front.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Contents", "pack", "unpack"]

_DOWNGRADED = b"downgraded"
_OTHER_RECIPE = "~"
_DATA_ALONE = "~election/"


class Contents(NamedTuple):
    """What a contender's value says; see `Contender` for the fields."""

    mark: str = ""
    owner: str = ""
    data: bytes = b""


def pack(queue: str, mark: str, owner: str, data: bytes) -> bytes:
    """Return the value of a contender in this queue; nothing where there is nothing to say."""
    if queue.startswith(_DATA_ALONE):
        return data
    value = f"{mark}\n{owner}".encode()
    if queue.startswith(_OTHER_RECIPE):
        value += b"\n" + data
    return value if mark or owner or data else b""


def unpack(queue: str, value: bytes) -> Contents:
    """Return what the value of a contender in this queue says; anybody may have written it."""
    if queue.startswith(_DATA_ALONE):
        return Contents(data=value)
    mark, line_end, rest = value.partition(b"\n")
    if not line_end:
        rest = mark.removeprefix(_DOWNGRADED)
        mark = mark[: len(mark) - len(rest)]
    owner, data = rest, b""
    if queue.startswith(_OTHER_RECIPE):
        owner, _, data = rest.partition(b"\n")
    return Contents(mark.decode("utf-8", "replace"), owner.decode("utf-8", "replace"), data)
