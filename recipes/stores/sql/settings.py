"""What the connections of one client have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recipes.stores.sql.statements import Statements

__all__ = ["BELL", "Settings"]

BELL = "recipes_"
"""The channel of a session is this and its id."""


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """Where the database is, and what all clients of one deployment agree about.

    Attributes:
        label: Where it is, for events and errors; never a secret.
        statements: For its tables and its dialect.
        engine: Makes the engine, or returns the user's own: an `Engine`, or an `AsyncEngine` for asyncio.
        own: The engine is made for this client, and disposed of with it; else it is the user's, whose
            connections have settings of their own.
        grace_us: For how long nothing is granted after a standby took over.
        create_tables: Tables that are missing are made at first use.
        theirs: The user's own engine, which is not disposed of; None: there is none.
        listens: Whether the driver can receive what the server notifies.
    """

    label: str
    statements: Statements
    engine: Callable[[], Any]
    own: bool
    grace_us: int
    create_tables: bool = False
    theirs: Any = None
    listens: bool = True
