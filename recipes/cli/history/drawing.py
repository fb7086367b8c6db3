"""The picture of a lock's history, as SVG: a lane for each contender, time from left to right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from recipes._printable import printable
from recipes.cli.history.counting import Summary, gaps, longest_waits, summary
from recipes.cli.history.spans import Hold, LockHistory, Mark, Wait

__all__ = ["STYLE", "WIDTH", "drawing", "figure_lines", "in_markup", "panels", "words"]

WIDTH = 1200
LEFT, RIGHT = 120, 16
ROW, BAR = 22, 16
TOP, HEAD, FOOT = 46, 44, 22
LINE = 17
LETTER = 6.6
"""About the width of a figure in a label."""
APART = 22
"""Between the entries of the legend."""
LISTED = 5

STYLE = """
.timeline { font: 12px system-ui, sans-serif; background: #fff; }
.timeline text { fill: #222; }
.timeline .title { font-weight: 600; font-size: 14px; }
.timeline .dim, .timeline .tick text { fill: #666; }
.timeline .tick line { stroke: #e4e4e4; }
.timeline .row { stroke: #eee; }
.timeline .waits { fill: #f3c969; }
.timeline .holds { fill: #0b6fb8; }
.timeline .shares { fill: #5bb8a6; }
.timeline .over { fill: url(#over); stroke: #b3261e; stroke-width: 1; }
.timeline .label { fill: #fff; font-size: 11px; pointer-events: none; }
.timeline .suspect { fill: #e07b00; }
.timeline .lost { stroke: #b3261e; stroke-width: 2.5; fill: none; }
.timeline .requeued { stroke: #7b3fa0; stroke-width: 2.5; fill: none; }
.timeline .timeout, .timeline .cancelled { stroke: #555; stroke-width: 2; fill: none; }
""".strip()

PATTERN = (
    '<defs><pattern id="over" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
    '<rect width="2.5" height="6" fill="#b3261e"/></pattern></defs>'
)

GLYPHS = {
    "suspect": "M0,-7 L6,5 L-6,5 Z",
    "lost": "M-5,-5 L5,5 M5,-5 L-5,5",
    "requeued": "M5,-5 L-4,0 L5,5 M-4,0 L7,0",
    "timeout": "M0,-6 L0,6 M-4,6 L4,6 M-4,-6 L4,-6",
    "cancelled": "M-5,0 L5,0 M0,-5 L0,5",
}
"""What is drawn around the moment of a mark."""

LEGEND = (
    ("waits", "waits"),
    ("holds", "holds it alone"),
    ("shares", "holds it shared"),
    ("over", "lost, and not noticed yet"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One lock's part of the picture, below ``top``."""

    history: LockHistory
    top: float
    rows: dict[str, int]

    @property
    def rows_top(self) -> float:
        """Where the first lane begins."""
        return self.top + HEAD

    @property
    def rows_bottom(self) -> float:
        """Where the last lane ends."""
        return self.rows_top + ROW * len(self.history.lanes)

    @property
    def seconds(self) -> float:
        """How long the panel is."""
        return max(self.history.end - self.history.start, 1e-6)

    def x(self, at: float) -> float:
        """Return where a moment is."""
        return LEFT + (at - self.history.start) / self.seconds * (WIDTH - LEFT - RIGHT)

    def y(self, lane: str) -> float:
        """Return where a lane's middle is."""
        return self.rows_top + ROW * (self.rows[lane] + 0.5)


def panels(histories: Sequence[LockHistory], *, figures: bool = True) -> list[Panel]:
    """Return the panels, one below the other."""
    found: list[Panel] = []
    top: float = TOP
    for history in histories:
        found.append(Panel(history, top, {lane: row for row, lane in enumerate(history.lanes)}))
        top = found[-1].rows_bottom + FOOT + LINE * (len(figure_lines(history)) + 2 if figures else 1)
    return found


def drawing(histories: Sequence[LockHistory], *, figures: bool = True) -> str:
    """Return the picture; with the figures below each lock, unless they are shown elsewhere."""
    drawn = panels(histories, figures=figures)
    last = drawn[-1]
    height = last.rows_bottom + FOOT + LINE * (len(figure_lines(last.history)) + 1 if figures else 0)
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" {size} role="img" aria-label="who held">',
        f"<style>{STYLE}</style>{PATTERN}",
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>',
        *_legend(),
    ]
    for number, panel in enumerate(drawn):
        lines += _panel(number, panel, figures=figures)
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> Iterator[str]:
    x = float(LEFT)
    for kind, text in LEGEND:
        yield f'<rect class="{kind}" x="{x:.1f}" y="14" width="22" height="12"/>'
        yield f'<text x="{x + 28:.1f}" y="24">{text}</text>'
        x += 28 + _wide(text) + APART
    for kind, glyph in GLYPHS.items():
        yield f'<path class="{kind}" d="{glyph}" transform="translate({x + 6:.1f},20)"/>'
        yield f'<text x="{x + 18:.1f}" y="24">{kind}</text>'
        x += 18 + _wide(kind) + APART


def _wide(text: str) -> float:
    """Return about how wide a text is, in whatever sans-serif font of 12 px the reader has."""
    return sum(3.7 if one in "fijlrt, " else 9.6 if one in "mw" else 6.9 for one in text)


def _panel(number: int, panel: Panel, *, figures: bool) -> Iterator[str]:
    history = panel.history
    shown, where = _labels(history.holds)
    yield (
        f'<g class="panel" data-start="{history.start:.6f}" data-end="{history.end:.6f}" data-left="{LEFT}" '
        f'data-right="{WIDTH - RIGHT}">'
    )
    yield f'<text class="title" x="{LEFT}" y="{panel.top + 16}">{in_markup(history.title)}</text>'
    yield f'<text class="dim" x="{LEFT}" y="{panel.top + 33}">{in_markup(_subtitle(history, where))}</text>'
    yield from _axis(panel)
    yield (
        f'<clipPath id="clip{number}"><rect x="{LEFT}" y="{panel.rows_top}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{panel.rows_bottom - panel.rows_top}"/></clipPath>'
    )
    for lane in history.lanes:
        y = panel.y(lane)
        yield f'<line class="row" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + ROW / 2}" y2="{y + ROW / 2}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{in_markup(_short(lane))}</text>'
    yield f'<g clip-path="url(#clip{number})">'
    for wait in history.waits:
        yield _bar(panel, "waits", wait, wait.start, wait.end)
    for hold in history.holds:
        yield from _hold(panel, hold, shown)
    for mark in history.marks:
        yield _mark(panel, mark)
    yield "</g>"
    if figures:
        for index, line in enumerate(figure_lines(history), 1):
            y = panel.rows_bottom + FOOT + LINE * index
            yield f'<text class="figure" x="{LEFT}" y="{y}">{in_markup(line)}</text>'
    yield "</g>"


def _subtitle(history: LockHistory, where: str) -> str:
    one = summary(history)
    return (
        f"{one.grants} grants to {one.contenders} in {_duration(one.seconds)}; {one.contended:.0%} had to "
        f"queue, held {one.busy:.0%} of the time{where}"
    )


def _axis(panel: Panel) -> Iterator[str]:
    step = _round(panel.seconds / 10)
    for index in range(math.floor(panel.seconds / step + 1e-9) + 1):
        at = panel.history.start + index * step
        x, bottom = panel.x(at), panel.rows_bottom
        yield (
            f'<g class="tick"><line x1="{x:.2f}" x2="{x:.2f}" y1="{panel.rows_top}" y2="{bottom}"/>'
            f'<text x="{x:.2f}" y="{bottom + 14}" text-anchor="middle">{index * step:g} s</text></g>'
        )


def _round(step: float) -> float:
    """Return the nearest 1, 2 or 5 of its decade that is not smaller."""
    decade = 10.0 ** math.floor(math.log10(step))
    return next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= step * 0.999)


def _hold(panel: Panel, hold: Hold, shown: int) -> Iterator[str]:
    """Yield the parts of a grant: alone, then shared, then lost and not notified."""
    until = hold.superseded_at or hold.end
    for start, end, shared in hold.stretches():
        yield _bar(panel, "shares" if shared else "holds", hold, start, end)
    if hold.superseded_at is not None:
        yield _bar(panel, "over", hold, hold.superseded_at, hold.end)
    if hold.token is not None:
        label = str(hold.token)[-shown:]
        middle = panel.x(hold.start + (until - hold.start) / 2)
        room = panel.x(until) - panel.x(hold.start) > LETTER * len(label) + 2
        hidden = "" if room else ' visibility="hidden"'
        yield (
            f'<text class="label" data-a="{hold.start:.6f}" data-b="{until:.6f}" x="{middle:.2f}" '
            f'y="{panel.y(hold.lane) + 4}" text-anchor="middle"{hidden}>{label}</text>'
        )


def _labels(holds: Sequence[Hold]) -> tuple[int, str]:
    """Return how many of the last figures of a token are shown, and a word on that."""
    tokens = [str(hold.token) for hold in holds if hold.token is not None]
    if not tokens:
        return 0, ""
    if len({len(token) for token in tokens}) > 1:
        return max(map(len, tokens)), ""
    shown = max(len(tokens[0]) - len(_common(tokens)), 2)
    if shown >= len(tokens[0]):
        return len(tokens[0]), ""
    return shown, f"; of the tokens {tokens[0]} to {max(tokens)} the last {shown} figures are shown"


def _bar(panel: Panel, kind: str, of: Wait | Hold, start: float, end: float) -> str:
    height = BAR / 2 if kind == "waits" else BAR
    x, wide = panel.x(start), max(panel.x(end) - panel.x(start), 0.6)
    y = panel.y(of.lane) - height / 2
    return (
        f'<rect class="bar {kind}" data-a="{start:.6f}" data-b="{end:.6f}" x="{x:.2f}" y="{y}" '
        f'width="{wide:.2f}" height="{height}"><title>{in_markup(words(of))}</title></rect>'
    )


def _mark(panel: Panel, mark: Mark) -> str:
    x, y = panel.x(mark.at), panel.y(mark.lane)
    glyph = GLYPHS.get(mark.what, GLYPHS["cancelled"])
    return (
        f'<g class="mark" data-a="{mark.at:.6f}" data-y="{y}" transform="translate({x:.2f},{y})">'
        f'<path class="{in_markup(mark.what)}" d="{glyph}"><title>{in_markup(words(mark))}</title></path></g>'
    )


def in_markup(text: str) -> str:
    """Return a text for HTML and SVG, whatever characters are in it."""
    return escape(printable(text))


def words(one: Wait | Hold | Mark) -> str:
    """Return in words what a part of the picture is."""
    match one:
        case Mark():
            return f"{one.lane}: {one.what}{f', {one.reason}' if one.reason else ''}"
        case Wait():
            ends = {"acquired": f"then got token {one.token}", "open": "still waits where the log ends"}
            how = ends.get(one.how, one.how)
            return f"{one.lane} waited {_duration(one.seconds)} for it, {one.mode}; {how}"
        case Hold():
            still = "holds where the log ends" if one.superseded_at is None else "its end is in no log"
            ends = {"released": "released", "lost": "lost", "open": still}
            held = f"{one.lane} held it for {_duration(one.seconds)}, {one.mode}, token {one.token}"
            return f"{held}; {ends[one.how]}"


def figure_lines(history: LockHistory) -> list[str]:
    """Return the figures below the picture of a lock."""
    one = summary(history)
    found = []
    if one.hand_over:
        q = one.hand_over
        longest = sorted(gaps(history), key=lambda gap: -gap.seconds)[:LISTED]
        found.append(
            f"Hand-overs: {q.count}, half within {_duration(q.p50_s)}, 99 % within {_duration(q.p99_s)}. "
            "The longest: "
            + "; ".join(
                f"{_duration(gap.seconds)} at {gap.at - history.start:.3f} s, {gap.giver} to {gap.taker}"
                for gap in longest[:2]
            )
        )
    if waits := longest_waits(history):
        found.append(
            "Longest waits: "
            + "; ".join(
                f"{_duration(wait.seconds)} from {wait.start - history.start:.3f} s, {wait.lane}"
                for wait in waits[:4]
            )
        )
    if trouble := _trouble(one):
        found.append(f"Out of the ordinary: {trouble}")
    return found


def _common(texts: Sequence[str]) -> str:
    """Return what all of these begin with."""
    least, most = min(texts), max(texts)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False))
    return "".join(letter for letter, _ in same)


def _trouble(one: Summary) -> str:
    counts = {
        "suspect": one.suspect,
        "lost": one.lost,
        "requeued": one.requeued,
        "timed out": one.timeouts,
        "cancelled": one.cancelled,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _duration(seconds: float) -> str:
    """Return seconds as people read them."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.3g} ms"


def _short(lane: str) -> str:
    return lane if len(lane) <= 17 else f"…{lane[-16:]}"
