"""The changes that were judged to change nothing, one line each with the reason: ``equivalent.jsonl``."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LIST", "Change", "judged", "missing"]

LIST = Path(__file__).with_name("equivalent.jsonl")
"""Each line: the module and function, the lines as they are and as they become, and why nothing can tell."""


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of one function, and what a mutant has in their place."""

    path: str
    within: str
    was: str
    now: str

    def shown(self) -> str:
        """Return it as people read a change."""
        lines = [*(f"    - {one}" for one in self.was.splitlines())]
        lines += [f"    + {one}" for one in self.now.splitlines()]
        return "\n".join([f"  {self.path}: {self.within or 'the module'}", *lines])


def judged(path: Path = LIST) -> dict[Change, str]:
    """Return each change of the list, with its reason."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {Change(one["path"], one["within"], one["was"], one["now"]): one["because"] for one in lines}


def missing(changes: dict[Change, str], root: Path) -> list[str]:
    """Return what is wrong with the list: lines that are no longer in the code, and missing reasons."""
    return [
        f"{problem}:\n{one.shown()}" for one, why in changes.items() for problem in _wrong(one, why, root)
    ]


def _wrong(one: Change, why: str, root: Path) -> Iterator[str]:
    if not why.strip():
        yield "no reason is given"
    source = (root / one.path).read_text(encoding="utf-8") if (root / one.path).exists() else ""
    if one.was not in _body(source, one.within):
        yield "these lines are no longer there"


def _body(source: str, within: str) -> str:
    """Return the text of a function, by its qualified name; of the module if it has none."""
    node: ast.AST | None = ast.parse(source)
    for name in within.split(".") if within else ():
        inner = [one for one in ast.walk(node) if getattr(one, "name", "") == name] if node else []
        node = next(iter(inner), None)
    if not within:
        return source
    lines = source.splitlines()
    return "\n".join(lines[node.lineno - 1 : node.end_lineno]) if node else ""  # type: ignore[attr-defined]
