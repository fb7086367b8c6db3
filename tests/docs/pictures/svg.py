"""What a picture is made of: boxes, words and arrows on a white card, so that it reads on any background."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALE", "RED", "YELLOW", "Picture"]

INK, GREY, PALE = "#1f2328", "#5c6570", "#dfe3e8"
BLUE, GREEN, RED, ORANGE, YELLOW = "#0b6fb8", "#1a7f4b", "#b3261e", "#b35900", "#f3c969"
FONT = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'

Point = tuple[float, float]


class Picture:
    """A card of so many pixels, to which parts are added; `text` is the file.

    Args:
        width: Pixels.
        height: Pixels.
        words: What it shows, for who cannot see it.
    """

    def __init__(self, width: int, height: int, words: str) -> None:
        heads = "".join(
            f'<marker id="head-{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse">'
            f'<path d="M0,0 L10,5 L0,10 Z" fill="{colour}"/></marker>'
            for name, colour in _HEADS.items()
        )
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        inner = f'width="{width - 1}" height="{height - 1}"'
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(words)}" {FONT}>',
            f"<title>{escape(words)}</title><defs>{heads}</defs>",
            f'<rect x="0.5" y="0.5" {inner} rx="8" fill="#ffffff" stroke="{PALE}"/>',
        ]

    @property
    def text(self) -> str:
        """The file."""
        return "\n".join([*self._parts, "</svg>", ""])

    def words(
        self,
        at: Point,
        *lines: str,
        colour: str = INK,
        size: float = 12,
        anchor: str = "start",
        bold: bool = False,
        clear: bool = False,
    ) -> None:
        """Write lines, one below the other; ``at`` is the first one's base line.

        ``clear`` has them stand clear of what is drawn there.
        """
        weight = ' font-weight="600"' if bold else ""
        weight += ' stroke="#ffffff" stroke-width="4" paint-order="stroke"' if clear else ""
        for number, line in enumerate(lines):
            self._parts.append(
                f'<text x="{at[0]:g}" y="{at[1] + number * (size + 3):g}" fill="{colour}" '
                f'font-size="{size:g}" text-anchor="{anchor}"{weight}>{escape(line)}</text>'
            )

    def box(
        self, at: Point, size: Point, *, fill: str = "#ffffff", edge: str = INK, dashed: bool = False
    ) -> None:
        """Draw a box; ``at`` is its upper left corner."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="5" '
            f'fill="{fill}" stroke="{edge}" stroke-width="1.4"{dash}/>'
        )

    def line(
        self, points: Sequence[Point], *, colour: str = GREY, width: float = 1.4, dash: str = ""
    ) -> None:
        """Draw a line through points."""
        self._path(f"M{_joined(points)}", colour, width, dash)

    def arrow(self, points: Sequence[Point], *, colour: str = GREY, dash: str = "") -> None:
        """Draw an arrow: straight through two points, curved by three or four."""
        kind = {2: " L", 3: " Q", 4: " C"}[len(points)]
        path = f"M{_joined(points[:1])}{kind}{_joined(points[1:])}"
        self._path(path, colour, 1.5, dash, f' marker-end="url(#head-{_NAMES[colour]})"')

    def dot(self, at: Point, radius: float, colour: str) -> None:
        """Draw a dot."""
        self._parts.append(f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="{radius:g}" fill="{colour}"/>')

    def cross(self, at: Point, colour: str) -> None:
        """Draw a cross."""
        x, y = at
        self._path(
            f"M{x - 5:g},{y - 5:g} L{x + 5:g},{y + 5:g} M{x + 5:g},{y - 5:g} L{x - 5:g},{y + 5:g}",
            colour,
            2.6,
            "",
        )

    def _path(self, path: str, colour: str, width: float, dash: str, more: str = "") -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}{more}/>'
        )


_HEADS = {"ink": INK, "grey": GREY, "blue": BLUE, "green": GREEN, "red": RED, "orange": ORANGE}
_NAMES = {colour: name for name, colour in _HEADS.items()}


def _joined(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
