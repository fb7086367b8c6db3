"""The one rule of every gate: which tokens pass, and what is remembered of those that did.

A writer needs a token that is not smaller than any the gate has seen, a reader one that is
not smaller than any *writer's* (readers hold together, so their tokens say nothing about
each other). The rule is data: a gate in SQL or in a script of Redis is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from recipes.errors import StaleToken, TooWeak
from recipes.events import titled
from recipes.guarantees import STORES

if TYPE_CHECKING:
    from recipes.grant import AsyncGrant, Grant

__all__ = ["FIELDS", "LARGEST", "READER", "WRITER", "Gating", "Pass", "Proof", "Seen", "ask"]

Field = Literal["newest", "writer"]
Proof: TypeAlias = "Grant | AsyncGrant | int"
"""What a gate takes: a grant, or the token of one that another process holds."""

FIELDS: tuple[Field, Field] = ("newest", "writer")
LARGEST = 2**63 - 1
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Gating:
    """What a token has to reach, and what it raises to itself when it passes."""

    floor: Field
    raises: tuple[Field, ...]


WRITER = Gating("newest", ("newest", "writer"))
READER = Gating("writer", ("newest",))


@dataclass(frozen=True, slots=True)
class Pass:
    """A token that asks to pass the gate of ``name``."""

    name: str
    token: int
    rule: Gating


@dataclass(frozen=True, slots=True)
class Seen:
    """What a gate remembers; for a gate of your own, keep both numbers beside the data.

    Attributes:
        newest: The largest token that passed; 0 if none did.
        writer: The largest one of a writer.
    """

    newest: int = 0
    writer: int = 0

    def admit(self, name: str, grant: Proof, *, shared: bool = False) -> Seen:
        """Return what to remember from now on; no I/O.

        Store it in the same atomic step as the write that it admits.

        Args:
            name: What the gate protects, for the error.
            grant: A grant, or a token.
            shared: As a reader, which writes nothing.

        Raises:
            StaleToken: A later holder was there before.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad name or token.
        """
        return self.after(ask(name, grant, shared=shared))

    def after(self, asking: Pass) -> Seen:
        """Return what is remembered once this token has passed.

        Args:
            asking: The token, and what it has to reach.

        Raises:
            StaleToken: It may not.
        """
        floor: int = getattr(self, asking.rule.floor)
        if asking.token < floor:
            raise StaleToken(asking.name, asking.token, floor)
        raised = {field: max(getattr(self, field), asking.token) for field in asking.rule.raises}
        return replace(self, **raised)


def ask(name: str, grant: Proof, *, shared: bool) -> Pass:
    """Check the proof, and return what a gate is asked; no I/O.

    Raises:
        LockLost: The grant is lost, or released.
        TooWeak: The grant has no token.
        ValueError: A shared grant asks to write; a bad name or token.
        TypeError: A name that is no text, a proof that is neither grant nor token.
    """
    if not isinstance(name, str):
        raise TypeError(f"a gate's name is text, not {type(name).__name__}")
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"a gate's name has 1 to {LONGEST_NAME} characters, not {len(name)}")
    token = grant if isinstance(grant, int) else _token(grant, shared=shared)
    if isinstance(token, bool) or not 0 <= token <= LARGEST:
        raise ValueError(f"{token!r} is no fencing token: those are whole numbers from 0 to 2**63 - 1")
    return Pass(name, token, READER if shared else WRITER)


def _token(grant: Any, *, shared: bool) -> int:
    if not hasattr(grant, "token") or not hasattr(grant, "check"):
        raise TypeError(f"a gate takes a grant or its token, not {type(grant).__name__}")
    if not getattr(grant, "_fences", True):  # of several holders a gate would refuse all but the last
        recipe = grant._hold.labels["recipe"]  # noqa: SLF001 - the two are one package
        instead = "the grant of a lock in it" if recipe == "multilock" else "a lock"
        raise TooWeak(titled(recipe, grant.name), ("fencing",), (instead,))
    if grant.token is None:
        fencing = tuple(f"{scheme}://" for scheme, given in STORES.items() if given.fencing)
        raise TooWeak(f"the store of lock {grant.name!r}", ("fencing",), fencing)
    grant.check()
    if grant.mode == "shared" and not shared:
        raise ValueError(
            f"the grant of {grant.name!r} is shared: it lets you read; say shared=True, and write nothing"
        )
    token: int = grant.token
    return token
