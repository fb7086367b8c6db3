"""What is shown of each recipe's contenders: the columns of its own, and the words for what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recipes._api.membership import Member, said
from recipes.cli.looking.asking import Justify
from recipes.inspection import ContenderInfo

__all__ = ["SHAPES", "Shape", "exact_text_of", "text_of"]


@dataclass(frozen=True, slots=True)
class Shape:
    """How the queue of one recipe is shown.

    Attributes:
        columns: The columns of its own, and how each is justified.
        cells: Returns what a contender has in them.
        words: Returns the same in words.
        fields: Returns what programs get besides the fields that all contenders have.
        holds: What one does that holds, in a word.
        holds_it: The same in a sentence.
        waits: What one does that waits.
        nobody: What to say of an empty queue.
    """

    columns: tuple[tuple[str, Justify], ...]
    cells: Callable[[ContenderInfo], tuple[str, ...]]
    words: Callable[[ContenderInfo], str]
    fields: Callable[[ContenderInfo], Mapping[str, Any]]
    holds: str = "holds"
    holds_it: str = "holds it"
    waits: str = "waits"
    nobody: str = "nobody holds it, and nobody waits"


def text_of(data: bytes) -> str:
    """Return what a contender says, as text that a terminal can show."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def exact_text_of(data: bytes) -> str:
    """Return what a contender says, for programs: bytes that are no UTF-8 are lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def _said(one: ContenderInfo) -> tuple[str, str]:
    """Return the id of a member, and what it says, for people."""
    member = _member(one)
    return text_of(member.id.encode()), text_of(member.data)


def _member(one: ContenderInfo) -> Member:
    """Return which member it is; of one of another layout the id is not known."""
    return said(one.data) or Member("", one.data)


def _takes_permits(one: ContenderInfo) -> bool:
    """Whether it does: one of an unknown kind has a token in their place."""
    return one.weight is not None


SHAPES = {
    "lock": Shape(
        columns=(("mode", "left"), ("token", "right")),
        cells=lambda one: (one.mode, str(one.token)),
        words=lambda one: f"{one.mode}, token {one.token}",
        fields=lambda _: {},
    ),
    "semaphore": Shape(
        columns=(("permits", "right"), ("id", "left")),
        cells=lambda one: (str(one.weight), one.id) if _takes_permits(one) else ("all", f"token {one.token}"),
        words=lambda one: (
            f"permits {one.weight}, id {one.id}" if _takes_permits(one) else f"all permits, token {one.token}"
        ),
        fields=lambda one: {"id": one.id, "weight": one.weight},
    ),
    "election": Shape(
        columns=(("value", "left"), ("token", "right")),
        cells=lambda one: (text_of(one.data), str(one.token)),
        words=lambda one: f"value {text_of(one.data)}, token {one.token}",
        fields=lambda one: {"value": exact_text_of(one.data)},
        holds="leads",
        holds_it="leads",
        nobody="nobody leads, and nobody campaigns",
    ),
    "group": Shape(
        columns=(("member", "left"), ("data", "left"), ("token", "right")),
        cells=lambda one: (*_said(one), str(one.token)),
        words=lambda one: "{}, data {}, token {}".format(*_said(one), one.token),
        fields=lambda one: {"member": _member(one).id, "data": exact_text_of(_member(one).data)},
        holds="member",
        holds_it="is a member",
        nobody="nobody is a member, and nobody waits for an id",
    ),
}
"""By recipe; a lock, an rlock and an rwlock of one name share a queue."""
