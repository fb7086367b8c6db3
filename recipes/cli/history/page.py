"""The timeline as a page: one file that needs no other, a picture to zoom and tables of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recipes.cli.history.counting import gaps, longest_waits, summary
from recipes.cli.history.drawing import drawing, in_markup, words
from recipes.cli.history.spans import LockHistory

__all__ = ["page"]

LISTED = 20
OFFLINE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
)
BUTTONS = (
    '<p><button id="in">+</button> <button id="out">&minus;</button> <button id="all">all</button> '
    "Zoom with the wheel, and move by dragging.</p>"
)
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px auto; max-width: 1240px; color: #222; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 28px; }
table { border-collapse: collapse; margin: 8px 24px 16px 0; } td, th { padding: 3px 10px; text-align: right; }
th { font-weight: 600; border-bottom: 1px solid #bbb; } td.text, th.text { text-align: left; }
button { font: inherit; min-width: 2.2em; } .side { display: flex; flex-wrap: wrap; }
#picture { overflow-x: auto; } #picture svg { touch-action: none; cursor: grab; }
#said { min-height: 1.4em; color: #444; }
"""


def page(histories: Sequence[LockHistory], title: str) -> str:
    """Return the page."""
    script = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            OFFLINE,
            f"<title>{in_markup(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{in_markup(title)}</h1>",
            BUTTONS,
            '<p id="said"></p>',
            f'<div id="picture">{drawing(histories, figures=False)}</div>',
            *(line for history in histories for line in _figures(history)),
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def _figures(history: LockHistory) -> Iterator[str]:
    one = summary(history)
    yield f"<h2>{in_markup(history.title)}</h2>"
    counts = (
        f"{one.grants} grants to {one.contenders} contenders; {one.contended:.0%} had to queue, at most "
        f"{one.longest_queue} at once; {one.lost} lost, {one.suspect} suspect, {one.requeued} requeued, "
        f"{one.timeouts} timed out, {one.cancelled} cancelled"
    )
    yield f"<p>{counts}</p>"
    kinds = (("wait", one.wait), ("hold", one.hold), ("hand-over", one.hand_over))
    yield from _table(
        ("", "count", "p50 ms", "p90 ms", "p99 ms", "longest ms"),
        [(kind, *found.in_milliseconds()) for kind, found in kinds if found is not None],
    )
    yield '<div class="side">'
    longest = sorted(gaps(history), key=lambda gap: -gap.seconds)[:LISTED]
    yield from _table(
        ("longest hand-overs", "at s", "ms", "token"),
        [
            (f"{gap.giver} to {gap.taker}", f"{gap.at - history.start:.3f}", _ms(gap.seconds), f"{gap.token}")
            for gap in longest
        ],
    )
    yield from _table(
        ("longest waits", "from s", "ms"),
        [
            (words(wait), f"{wait.start - history.start:.3f}", _ms(wait.seconds))
            for wait in longest_waits(history, LISTED)
        ],
    )
    yield "</div>"
    yield from _table(
        ("out of the ordinary", "at s"),
        [(words(mark), f"{mark.at - history.start:.3f}") for mark in history.marks[:200]],
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table; nothing if it has no rows. The first column is text."""
    lines = list(rows)
    if not lines:
        return
    yield "<table><tr>" + "".join(_cell("th", index, text) for index, text in enumerate(head)) + "</tr>"
    for line in lines:
        yield "<tr>" + "".join(_cell("td", index, text) for index, text in enumerate(line)) + "</tr>"
    yield "</table>"


def _cell(kind: str, index: int, text: str) -> str:
    css = "" if index else ' class="text"'
    return f"<{kind}{css}>{in_markup(text)}</{kind}>"
