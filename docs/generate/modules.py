"""The picture of the house: its layers, and who imports whom, read from the imports."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from tests.test_purity import MODULES, imports, is_pure, layer

__all__ = ["modules"]

TOLD = {
    "cli": ("the command", "cli/"),
    "kit": ("the test kit", "testing/"),
    "telemetry": ("telemetry", "telemetry/"),
    "gates": ("gates", "fencing/"),
    "guards": ("guards", "etcd.py, zookeeper.py"),
    "root": ("the package", "__init__.py"),
    "nouns": ("nouns", "client.py, lock.py, _api/ ..."),
    "drivers": ("drivers", "_run/"),
    "programs": ("programs", "_programs/"),
    "rules": ("rules", "_rules/"),
    "registry": ("registry of stores", "stores/registry.py"),
    "backends": ("backends", "stores/*/"),
    "entry": ("entry", "stores/tls.py, credentials.py ..."),
    "transports": ("transports", "stores/*/: the only I/O"),
    "receipts": ("receipts", "stores/receipts.py"),
    "protocols": ("store protocols", "stores/*/protocol*.py"),
    "queue kit": ("their protocol", "stores/_kit/queue.py"),
    "store kit": ("the kit of stores", "stores/_kit/"),
    "contract": ("the contract", "_contract/"),
    "values": ("values", "errors.py, events.py"),
    "waiting": ("waiting", "_run/waiting.py"),
    "clock": ("the clock", "_run/clock.py"),
}
"""What each layer is called, and where it lies; the layers are those of ``tests/test_purity.py``."""
WIDTH, ROW, BOX, TALL = 1060, 96, 168, 50
LEGEND = (
    "blue: pure, no I/O and no clock; a line: the upper imports the lower, or its neighbour; "
    "what follows from other lines is left out"
)
STYLE = """
.house { font: 13px system-ui, sans-serif; background: #fff; }
.house text { fill: #222; text-anchor: middle; }
.house .where { fill: #666; font-size: 10px; }
.house rect { fill: #f4f4f4; stroke: #888; rx: 6px; }
.house .pure rect { fill: #e3f0fb; stroke: #0b6fb8; }
.house path { fill: none; stroke: #999; }
"""


def modules() -> str:
    """Return the picture."""
    uses = _uses()
    levels = _levels(uses)
    rows: dict[int, list[str]] = defaultdict(list)
    for name in TOLD:
        rows[levels[name]].append(name)
    top = max(rows)
    places = {
        name: (round(WIDTH * (column + 0.5) / len(row)), 20 + (top - level) * ROW)
        for level, row in rows.items()
        for column, name in enumerate(row)
    }
    lines = [
        _line(places[one], places[other]) for one in TOLD for other in TOLD if other in _needed(uses, one)
    ]
    boxes = [_box(name, *places[name]) for name in TOLD]
    height = 20 + top * ROW + TALL + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="house" viewBox="0 0 {WIDTH} {height}" role="img"'
    told = f'<text x="{WIDTH // 2}" y="{height - 12}" class="where">{escape(LEGEND)}</text>'
    parts = [
        f'{head} aria-label="the layers of the package">',
        f"<style>{STYLE}</style>",
        *lines,
        *boxes,
        told,
    ]
    return "\n".join([*parts, "</svg>", ""])


def _uses() -> dict[str, set[str]]:
    """Return the layers that each layer imports."""
    found: dict[str, set[str]] = {name: set() for name in TOLD}
    for module in MODULES:
        for name in imports(module):
            if name == "recipes" or name.startswith("recipes."):
                found[layer(module)].add(layer(name))
    return {own: others - {own} for own, others in found.items()}


def _reach(uses: dict[str, set[str]], start: str) -> set[str]:
    """Return all that a layer imports, and what that imports, and so on."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        ahead.extend(uses[ahead.pop()] - found)
        found.update(ahead)
    return found


def _levels(uses: dict[str, set[str]]) -> dict[str, int]:
    """Return how high each layer stands: above all it imports, and beside what imports it in turn."""
    reach = {name: _reach(uses, name) for name in uses}

    def level(name: str) -> int:
        below = {other for other in reach[name] if name not in reach[other]}
        return max((level(other) + 1 for other in below), default=0)

    return {name: level(name) for name in uses}


def _needed(uses: dict[str, set[str]], one: str) -> set[str]:
    """Return what a layer imports, without what follows from the rest."""
    reach = {name: _reach(uses, name) for name in uses}
    return {
        other
        for other in uses[one]
        if not any(
            other in reach[between] and one not in reach[between] and between not in reach[other]
            for between in uses[one] - {other}
        )
    }


def _box(name: str, x: int, y: int) -> str:
    own = [module for module in MODULES if layer(module) == name]
    kind = ' class="pure"' if own and all(map(is_pure, own)) else ""
    title, where = TOLD[name]
    rect = f'<rect x="{x - BOX // 2}" y="{y}" width="{BOX}" height="{TALL}"/>'
    words = f'<text x="{x}" y="{y + 21}">{escape(title)}</text>'
    words += f'<text x="{x}" y="{y + 39}" class="where">{escape(where)}</text>'
    return f"<g{kind}>{rect}{words}</g>"


def _line(one: tuple[int, int], other: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = one, other
    if y1 == y2:
        side = BOX // 2 if x1 < x2 else -BOX // 2
        return f'<path d="M{x1 + side} {y1 + TALL // 2} L{x2 - side} {y1 + TALL // 2}"/>'
    start, end = y1 + TALL, y2
    return f'<path d="M{x1} {start} C{x1} {start + 30} {x2} {end - 30} {x2} {end}"/>'
