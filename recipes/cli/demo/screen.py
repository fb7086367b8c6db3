"""What the demonstration prints for people: a picture of each scene, and the verdict."""

from __future__ import annotations

from rich.box import ROUNDED
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from recipes._run.clock import boot_time
from recipes.cli.demo.scenes import COUNTER, name_of
from recipes.cli.demo.verdict import Side, Verdict
from recipes.cli.history.drawing import words
from recipes.cli.history.lanes import LEGEND, lanes_table
from recipes.cli.looking.asking import can_redraw

__all__ = ["Screen"]

REFRESH_S = 0.1
SETTLE_S = 0.15  # events of several processes arrive out of order by less than this
RECENT = 1000  # events are enough to draw
RIGHT = 24  # columns of the right side
AROUND = 11  # lines of a picture that are not workers
BAD, GOOD = "bold red", "bold green"


class Screen:
    """Draws a picture that moves, or where it cannot, and if it is plain, the last one of each scene."""

    def __init__(self, store: str, workers: int, *, plain: bool, quiet: bool) -> None:
        console = Console(highlight=False)
        room = console.width >= 76 and console.height >= 20
        moves = room and can_redraw(console) and not (plain or quiet)
        self._console = console if moves else Console(color_system=None, width=80, quiet=quiet)
        self.live = Live(console=console, auto_refresh=False, transient=True) if moves else None
        self._drawn_at = 0.0
        self._store = store
        self._workers = range(1, workers + 1)
        self.sides: tuple[Side, Side] | None = None

    def draw(self) -> None:
        """Draw what there is, if it is time."""
        now = boot_time()
        if self.live and now >= self._drawn_at + REFRESH_S:
            self._drawn_at = now
            height = max(self._console.height - AROUND, 1)  # its window may have shrunk
            self.live.update(self.picture(now - SETTLE_S, height), refresh=True)

    def end(self) -> None:
        """Leave the last picture of a scene."""
        self._console.print(self.picture(float("inf"), len(self._workers)))

    def picture(self, until: float, height: int) -> RenderableType:
        """Return what is to be seen of so many workers, by the events up to a time."""
        if self.sides is None:
            return Text(f"{len(self._workers)} processes start, with {self._store}")
        locked, unlocked = self.sides
        shown = self._workers[:height]
        width = self._console.width - RIGHT - 7
        history = locked.recent(RECENT, until)
        lanes = lanes_table(history, [name_of(worker, locked.scene) for worker in shown], width)
        last = {turn["worker"]: turn["value"] for turn in unlocked.turns}
        wrote = "wrote" if locked.scene is COUNTER else "added up to"
        twins = [Text(f"{worker} {wrote} {last.get(worker, '')}") for worker in shown]
        table = Table(box=ROUNDED, show_footer=True)
        table.add_column(locked.scene.title, LEGEND, footer_style="dim", width=width)
        table.add_column("without it", width=RIGHT)
        table.add_row(Group(lanes, "", _result(locked)), Group(*twins, "", _result(unlocked)))
        return Group(table, *(Text(words(mark), BAD) for mark in history.marks[-2:]))

    def verdict(self, verdict: Verdict) -> None:
        """Print what the demonstration showed."""
        table = Table("", "with the lock", "without it", box=None, pad_edge=False)
        for locked, unlocked in verdict.sides:
            table.add_row(locked.scene.name)
            for what, with_it, without in locked.figures(unlocked):
                table.add_row(f"  {what}", with_it, without)
        self._console.print(table)
        for problem in verdict.problems:
            self._console.print(f"FAILED  {problem}", style=BAD, markup=False)
        if verdict.ok:
            self._console.print("OK  under the locks nothing was lost, and no sum was wrong", style=GOOD)


def _result(side: Side) -> Text:
    """Return what became of the turns so far."""
    return Text(f"{side.share()}\n{side.scene.wrongs}", BAD if side.wrong else GOOD)
