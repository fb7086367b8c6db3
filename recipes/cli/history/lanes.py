"""The history of a lock for a terminal: a row for each lane, a column for each transition."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from recipes.cli.history.spans import LockHistory

__all__ = ["LEGEND", "lanes_table", "places", "rows"]

HOLDS, SHARES, WAITS, OVER, IDLE = "█▒░x "
LEGEND = f"{HOLDS} holds  {SHARES} shares  {WAITS} waits; a column a transition"
STYLES = {HOLDS: "bold green", SHARES: "cyan", WAITS: "yellow", OVER: "bold red", IDLE: ""}
SAID = 15
"""The width of what a lane does now, in words."""


def rows(history: LockHistory, columns: int) -> dict[str, str]:
    """Return for each lane what it was doing after each of the last transitions, so many at most."""
    found = list(_stretches(history))
    moments = sorted({at for _, start, end, _ in found for at in (start, end) if at <= history.end})
    moments = moments[-columns:] if columns > 0 else []
    cells = {lane: [IDLE] * len(moments) for lane in history.lanes}
    for lane, start, end, what in found:
        first, last = bisect_left(moments, start), bisect_left(moments, end)
        cells[lane][first:last] = what * (last - first)
    return {lane: "".join(cell) for lane, cell in cells.items()}


def places(history: LockHistory) -> dict[str, str]:
    """Return in words what each lane does where the log ends, if it does anything."""
    found = {}
    held = [hold for hold in history.holds if hold.how == "open" and hold.superseded_at is None]
    for hold in held:
        shared = hold.mode == "shared" or hold.downgraded_at is not None
        found[hold.lane] = f"{'shares' if shared else 'holds'} {_short(hold.token)}"
    waiting = (wait for wait in history.waits if wait.how == "open")
    for ahead, wait in enumerate(waiting, len(held)):
        found[wait.lane] = f"waits, {ahead} ahead" if ahead else "waits, is next"
    return found


def lanes_table(history: LockHistory, lanes: Sequence[str], width: int) -> Table:
    """Return a table of these lanes: the name, what it was doing lately, and what it does now."""
    grid = Table.grid(padding=(0, 1))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    columns = width - max(map(len, lanes)) - SAID - 2
    drawn, words = rows(history, columns), places(history)
    for lane in lanes:
        strip = Text(drawn.get(lane, "").rjust(columns))
        for what, style in STYLES.items():
            strip.highlight_words([what], style)
        now = strip.plain[-1:] or IDLE
        grid.add_row(lane, strip, Text(words.get(lane, "").ljust(SAID), STYLES[now]))
    return grid


def _stretches(history: LockHistory) -> Iterator[tuple[str, float, float, str]]:
    """Yield what each lane did from when to when; without end if it does so where the log ends."""
    endless = float("inf")
    for wait in history.waits:
        yield wait.lane, wait.start, endless if wait.how == "open" else wait.end, WAITS
    for hold in history.holds:
        for start, end, shared in hold.stretches():
            still = hold.how == "open" and end == hold.end
            yield hold.lane, start, endless if still else end, SHARES if shared else HOLDS
        if hold.superseded_at is not None:
            yield hold.lane, hold.superseded_at, hold.end, OVER


def _short(token: int | None) -> str:
    """Return the end of a token: the beginning is the same for all, and long on some stores."""
    return str(token) if token is None or token < 100_000 else f"..{token % 10_000:04}"
