"""One picture of the live view, drawn with rich from what is known at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from recipes.cli.demo.bank import TOTAL
from recipes.cli.demo.board import HOLDS, IDLE, SHARES, WAITS, Board, Tally

__all__ = ["TWO_COLUMNS", "finished", "frame"]

TWO_COLUMNS = 76
"""From this width on, the two sides stand beside each other."""
TWIN_WIDTH = 26
AROUND = 12
"""Lines of the picture that are not workers."""
LEGEND = "█ holds  ░ waits"
SHARING_LEGEND = "█ writes  ▒ reads  ░ waits"

CELLS = {HOLDS: ("█", "bold green"), SHARES: ("▒", "cyan"), WAITS: ("░", "yellow"), IDLE: (" ", "")}
BAD, GOOD, QUIET = "bold red", "bold green", "dim"


def frame(board: Board, now: float, width: int, height: int) -> RenderableType:
    """Return both sides of a scene.

    Args:
        board: The scene.
        now: When it is.
        width: Columns there are.
        height: Lines there are.
    """
    beside = width >= TWO_COLUMNS
    left_width = width - TWIN_WIDTH if beside else width
    left = Panel(
        _locked(board, now, left_width - 4, height),
        title=f"{board.scene.number} of 2: {board.scene.title}",
        title_align="left",
        subtitle=Text(f"{SHARING_LEGEND if board.scene.name == 'bank' else LEGEND}; a column a transition"),
        subtitle_align="left",
        border_style="green",
        width=left_width,
    )
    right = Panel(
        _unlocked(board, (TWIN_WIDTH if beside else width) - 4, _rows(board, height) if beside else 0),
        title="without it" if beside else "the same without the lock",
        title_align="left",
        border_style="red",
        width=TWIN_WIDTH if beside else width,
    )
    both: RenderableType = Columns([left, right], padding=0) if beside else Group(left, right)
    trouble = (Text(line, style=BAD, no_wrap=True, overflow="ellipsis") for line in board.trouble[-2:])
    return Group(both, *trouble)


def finished(board: Board) -> Text:
    """Return a scene that is over, in one line."""
    noun = _noun(board)
    return Text.assemble(
        (f"✓ {board.scene.name}: ", "bold"),
        (f"{board.locked.wrong} of {board.locked.turns} {noun}", BAD if board.locked.wrong else GOOD),
        ", without the lock ",
        (f"{board.unlocked.wrong}", BAD if board.unlocked.wrong else ""),
        no_wrap=True,
        overflow="ellipsis",
    )


def _locked(board: Board, now: float, width: int, height: int) -> RenderableType:
    rows = _rows(board, height)
    grid = Table.grid(padding=(0, 1))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    said = 20
    for worker in range(1, rows + 1):
        name = f"{worker} {board.scene.role(worker)}"
        strip = _strip(board.tape, worker, width - len(name) - said - 2)
        grid.add_row(name, strip, _state(board, worker, said))
    hidden = board.scene.processes - rows
    rate = Text.assemble((f"{board.a_second(now)}", "bold"), " hand-overs a second", justify="left")
    if hidden:
        rate.append(f"; {hidden} workers are not shown", style=QUIET)
    wrong, value = _result(board, board.locked)
    return Group(grid, "", _bar(board, now, width), rate, Text.assemble(wrong, "; ", value))


def _rows(board: Board, height: int) -> int:
    return min(board.scene.processes, max(height - AROUND, 2))


def _strip(tape: Sequence[str], worker: int, length: int) -> Text:
    """Return what a worker was after each of the last transitions, the newest on the right."""
    text = Text(no_wrap=True)
    shown = list(tape)[-length:] if length > 0 else []
    text.append(" " * (length - len(shown)))
    for lane, run in groupby(lanes[worker - 1] for lanes in shown):
        cell, style = CELLS[lane]
        text.append(cell * len(list(run)), style=style)
    return text


def _state(board: Board, worker: int, width: int) -> Text:
    """Return in words what a worker does now."""
    lane = board.lanes[worker]
    bank = board.scene.name == "bank"
    if lane == WAITS:
        ahead = board.ahead(worker)
        words = f"waits, {ahead} ahead" if ahead else "waits, is next"
    elif lane == HOLDS:
        words = f"{'writes' if bank else 'holds'}, token {_short(board.tokens[worker])}"
    elif lane == SHARES:
        words = "reads back" if board.scene.role(worker) == "writer" else "reads"
    else:
        words = ""
    return Text(words.ljust(width)[:width], style=CELLS[lane][1])


def _short(token: int) -> str:
    """Return the end of a token: the beginning is the same for all, and long on some stores."""
    return str(token) if token < 100_000 else f"…{token % 10_000:04}"


def _bar(board: Board, now: float, width: int) -> RenderableType:
    order, turns = board.scene.order, board.locked.turns
    if order.rounds is None:
        words = f"{turns} turns in {min(now - board.began_at, order.seconds or 0):.0f} of {order.seconds:g} s"
    else:
        words = f"{turns} of {order.rounds * board.scene.processes} turns"
    grid = Table.grid(padding=(0, 1))
    grid.add_row(_progress(board.progress(now), max(width - len(words) - 1, 5), "green"), words)
    return grid


def _progress(share: float, width: int, style: str) -> ProgressBar:
    return ProgressBar(total=1.0, completed=share, width=width, complete_style=style, finished_style=style)


def _unlocked(board: Board, width: int, rows: int) -> RenderableType:
    """Return the twins: what each did last, and what it came to."""
    tally = board.unlocked
    share = tally.wrong / tally.turns if tally.turns else 0.0
    bar = _progress(share, width, "red")
    wrong, value = _result(board, tally)
    grid = Table.grid()
    for worker in range(1, rows + 1):
        grid.add_row(_twin(board, worker))
    if not rows:
        grid.add_row(Text.assemble(wrong, "; ", value))
        grid.add_row(bar)
        return grid
    for part in ("", bar, wrong, value):
        grid.add_row(part)
    return grid


def _twin(board: Board, worker: int) -> Text:
    """Return what a twin wrote or saw last; red if it is wrong, or if another wrote the same."""
    value = board.twins.get(worker)
    if value is None:
        return Text(str(worker))
    bank = board.scene.name == "bank"
    bad = value != TOTAL if bank else list(board.twins.values()).count(value) > 1
    return Text(f"{worker} {'added up to' if bank else 'wrote'} {value}", style="red" if bad else "")


def _result(board: Board, tally: Tally) -> tuple[Text, str]:
    """Return how much went wrong so far, and what the files said last."""
    share = f" ({100 * tally.wrong // tally.turns}%)" if tally.wrong else ""
    wrong = Text(f"{tally.wrong} {_noun(board)}{share}", style=BAD if tally.wrong else GOOD)
    what = "the last sum is" if board.scene.name == "bank" else "the counter says"
    return wrong, f"{what} {'?' if tally.value is None else tally.value}"


def _noun(board: Board) -> str:
    return "wrong sums" if board.scene.name == "bank" else "updates lost"
