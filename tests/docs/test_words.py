"""Plain English: words and turns of phrase that pages, docstrings, comments and messages do not have."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

REFUSED = {
    r"\b(?:is|are|was|were|be|being|been) told\b": "is notified, or: is reported",
    r"\btells? of\b": "reports",
    r"\b(?:hears?|heard)\b": "is notified of, receives, answers",
    r"\b(?:dear|earnest|luck)\b": "costly, in production, may not know yet",
    r"\b[Ww]hoever\b": "a client that",
    r"(?:^|[.:;!] )Who (?![^.:;!]*\?)": "a client that, the one that",
    r"\b(?:he|him|his)\b": "it (of a program)",
    r"\bstrangers?\b": "foreign contender",
    r"\blifelines?\b": "liveness lock",
    r"\bkeepers?\b": "keepalive loop",
    r"\bstands? (?:in(?! the way| its way| its place| place of)|at|ahead|there|behind|yet)\b": "is",
}
"""What is refused, and what to write instead."""

MODULES = sorted((ROOT / "recipes").rglob("*.py"))


def prose_of(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments, docstrings and messages of a module with their lines."""
    text = module.read_text()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield (
                node.lineno,
                re.sub(r"`[^`]*`|^ +\w+:(?= )", "``", node.value, flags=re.MULTILINE),
            )  # no names


def prose_on(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside of code."""
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "``", line)


def refused(prose: Iterator[tuple[int, str]]) -> list[str]:
    """Return what is refused of it, where, and what to write instead."""
    return [
        f"{number}: {found[0].strip()!r}, {text[max(found.start() - 40, 0) : found.end() + 40]!r}: {instead}"
        for number, text in prose
        for pattern, instead in REFUSED.items()
        for found in re.finditer(pattern, text, re.MULTILINE)
    ]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_module_is_in_plain_english(module: Path) -> None:
    found = refused(prose_of(module))
    assert not found, found


@pytest.mark.parametrize("page", [page for page in PAGES if "proof" not in page.parts], ids=named)
def test_a_page_is_in_plain_english(page: Path) -> None:
    found = refused(prose_on(page))
    assert not found, found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("the holder is told", 1),
        ("an event tells of it", 1),
        ("Who waits, looks.", 1),
        ("Who holds it?", 0),
        ("See who holds it.", 0),
        ("time stands still", 0),
        ("it stands in the way", 0),
        ("it stands in the queue", 1),
        ("the client is notified", 0),
    ],
)
def test_the_patterns_find_what_they_should(text: str, count: int) -> None:
    assert len(refused(iter([(1, text)]))) == count
