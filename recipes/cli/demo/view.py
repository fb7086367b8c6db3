"""The live view: who holds, who waits and where, how fast it goes, and beside it those without the lock."""

from __future__ import annotations

from typing import IO, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from recipes.cli.demo.board import Board
from recipes.cli.demo.figures import CONCLUSION, figures, notes
from recipes.cli.demo.frame import finished, frame
from recipes.cli.demo.member import Message
from recipes.cli.demo.scene import Scene
from recipes.cli.demo.screen import Screen
from recipes.cli.demo.verdict import Verdict

__all__ = ["View", "verdict_panel"]

REFRESH_S = 0.1
SLOW_TURNS = 16
"""So many of a scene, by all workers together, are taken slowly."""


class View(Screen):
    """Draws what happens, in place.

    It starts no thread: it is drawn when messages come and when time goes by. With ``NO_COLOR`` set
    it has none.

    Args:
        out: The terminal.
        processes: How many workers there are.
    """

    def __init__(self, out: IO[str], processes: int) -> None:
        super().__init__(out, processes, colour=True)
        self.slow = max(SLOW_TURNS // processes, 1)
        self._console = Console(file=out, highlight=False)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._store = ""
        self._ready = 0
        self._boards: list[Board] = []
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the picture away, and give the cursor back."""
        self._live.stop()

    def say(self, text: str = "") -> None:
        """Print one line, above the picture."""
        self._console.print(text, markup=False)

    def open(self, url: str, pids: list[int]) -> None:
        """Remember what there is."""
        self._store = url

    def begin(self, scene: Scene, at: float) -> None:
        """Show a scene from now on."""
        self._boards.append(Board(scene, at))

    def show(self, message: Message, now: float) -> None:
        """Take a message, and draw if it is time."""
        self._ready += message["kind"] == "ready"
        self._in_order.add(message)
        self.tick(now)

    def tick(self, now: float) -> None:
        """Take in whatever is old enough to be in order, and draw if it is time."""
        self._take_in(now)
        if now >= self._drawn_at + REFRESH_S:
            self._drawn_at = now
            self._live.update(self.picture(now), refresh=True)

    def end(self) -> None:
        """Take in the last of a scene."""
        self._take_in(float("inf"))

    def _take_in(self, now: float) -> None:
        for message in self._in_order.settled(now):
            if self._boards:
                self._boards[-1].take(message)

    def picture(self, now: float) -> RenderableType:
        """Return what is to be seen now."""
        lines: list[RenderableType] = [
            Text.assemble(("recipes demo", "bold"), f"  {self._store}", no_wrap=True, overflow="ellipsis"),
        ]
        if not self._boards:
            lines.append(f"{self._ready} of {2 * self._processes} processes have started")
            return Group(*lines)
        *over, current = self._boards
        lines += [finished(board) for board in over]
        size = self._console.size
        return Group(*lines, frame(current, now, size.width, size.height - len(lines)))

    def verdict(self, verdict: Verdict) -> None:
        """Print what the demonstration showed."""
        self._console.print(verdict_panel(verdict))
        for problem in verdict.problems:
            self._console.print(f"FAILED  {problem}", style="bold red", markup=False)
        if verdict.ok:
            self._console.print(f"OK  {CONCLUSION}", style="bold green")


def verdict_panel(verdict: Verdict) -> RenderableType:
    """Return the figures as a table, and what there is to say about them."""
    table = Table.grid(padding=(0, 2))
    for style in ("", "green" if verdict.ok else "", "red"):
        table.add_column(style=style)
    table.add_row("", Text("with the lock", "bold"), Text("without it", "bold"))
    for row in figures(verdict):
        table.add_row(Text(row.what, "bold") if row.heading else f" {row.what}", row.locked, row.unlocked)
    said = [Text(note, style="italic") for note in notes(verdict)]
    return Panel(Group(table, *said), title="verdict", title_align="left")
