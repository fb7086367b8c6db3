"""What is generated: parts of pages, between two comments that name them, and whole pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from docs.generate.commands import commands
from docs.generate.contract import support
from docs.generate.errors import errors
from docs.generate.events import events, instruments
from docs.generate.keys import keys
from docs.generate.modules import modules
from docs.generate.promises import promises
from docs.generate.session import session
from docs.generate.urls import urls

__all__ = ["PARTS", "PICTURES", "made", "present", "write"]

DOCS = Path(__file__).parents[1]

PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("cli.md", commands),
    "errors": ("reference/errors.md", errors),
    "events": ("reference/errors.md", events),
    "instruments": ("operating/logging.md", instruments),
    "keys": ("reference/stores.md", keys),
    "promises": ("reference/stores.md", promises),
    "session": ("internals/house.md", session),
    "support": ("reference/stores.md", support),
    "urls": ("reference/stores.md", urls),
}
"""Each part: its page, and what makes it."""
PICTURES: dict[str, tuple[str, Callable[[], str]]] = {
    "modules": ("images/modules.svg", modules),
}


def write(name: str) -> bool:
    """Write a part or a picture; whether it was another before."""
    if name in PICTURES:
        path, text = DOCS / PICTURES[name][0], made(name)
        changed = not path.exists() or path.read_text() != text
    else:
        path = DOCS / PARTS[name][0]
        page = path.read_text()
        text = _place(name).sub(lambda found: found[1] + made(name) + found[3], page, count=1)
        changed = text != page
    if changed:
        path.write_text(text)
    return changed


def made(name: str) -> str:
    """Return what should be there."""
    if name in PICTURES:
        return PICTURES[name][1]()
    return f"\n{PARTS[name][1]().strip()}\n\n"


def present(name: str) -> str:
    """Return what is there."""
    if name in PICTURES:
        return (DOCS / PICTURES[name][0]).read_text()
    found = _place(name).search((DOCS / PARTS[name][0]).read_text())
    return "" if found is None else found[2]


def _place(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- generated: {name} -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)
