"""Text and bytes that ``repr`` does not show: so they are in no traceback's locals, no log, no dataclass.

They work as what they hold wherever they are sent; only who prints them on purpose, by
``str`` or ``print``, sees them.
"""

from __future__ import annotations

__all__ = ["Sealed", "Secret"]


class Secret(str):
    """A password or a token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Sealed(bytes):
    """A message with a password or a token in it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"
