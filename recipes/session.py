"""The session of a client, as users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from recipes._run.runtime import Runtime

__all__ = ["Session"]


class Session:
    """What a client's grants live and die with; a view that is always of the current session."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def state(self) -> Literal["none", "held", "suspect", "lost", "closed"]:
        """What the local clock says of it; no I/O.

        "none": not started (the first use starts it). "held": proven. "suspect": two
        renewals went by unanswered. "lost": given up, and no other started yet. "closed": the
        client was closed.
        """
        state = self._runtime.state
        if state.closed is not None:
            return "closed"
        session = state.last
        if session is None or session.clock is None:
            return "none"
        return "lost" if session.ended is not None else session.clock.state(self._runtime.now())

    @property
    def id(self) -> str | None:
        """Its id on the store in hexadecimal (the lease, the session id); None if there is none."""
        session = self._runtime.state.session
        return None if session is None else session.id

    @property
    def timeout(self) -> float | None:
        """Seconds after which the store ends it unheard of, as granted; None if there is none."""
        session = self._runtime.state.session
        return None if session is None or session.clock is None else session.clock.ttl_s

    @property
    def remaining(self) -> float:
        """Seconds for which it is proven without another renewal."""
        session = self._runtime.state.session
        return 0.0 if session is None else session.remaining(self._runtime.now())

    def __repr__(self) -> str:
        return f"<Session {self.id}: {self.state}, {self.remaining:.1f} s proven>"
