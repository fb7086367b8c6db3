"""All changes of one small thing that can be made to a module, by the operators of mutmut and a few of ours.

mutmut's own runner calls each function by way of a trampoline, skips what has a decorator, and
takes no seed: only its operators are used here, on the syntax tree that they are written for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string

from tests.mutation.equivalent import Change

__all__ = ["Place", "changed", "places"]

Operator = Callable[[cst.CSTNode], Iterable[cst.CSTNode]]
LEFT_OUT = {"len", "isinstance", "cast", "TypeVar", "ParamSpec", "assert_never", "AssertionError"}
"""Calls that are left as they are: any change of them is an error of types, or shows nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """One change that can be made: by which operator, at which node in the order of the tree, and which."""

    path: str
    line: int
    operator: str
    node: int
    variant: int


def places(path: str, source: str) -> list[Place]:
    """Return every change that can be made to this source, in the order of its lines."""
    return [place for place, *_ in _all(path, MetadataWrapper(cst.parse_module(source)))]


def changed(place: Place, source: str) -> tuple[str, Change]:
    """Return the source with this change, and the lines that it changed."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    old, new, within = next(
        (old, new, within) for found, old, new, within in _all(place.path, wrapper) if found == place
    )
    code = wrapper.module.deep_replace(old, new).code  # type: ignore[arg-type]
    was, now = _differing(source.splitlines(), code.splitlines())
    return code, Change(place.path, within, was, now)


def _differing(before: list[str], after: list[str]) -> tuple[str, str]:
    parts = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    edits = [part for part in parts if part[0] != "equal"]
    first, last = edits[0], edits[-1]
    was, now = before[first[1] : last[2]], after[first[3] : last[4]]
    return "\n".join(was).strip(), "\n".join(now).strip()


def _all(path: str, wrapper: MetadataWrapper) -> list[tuple[Place, cst.CSTNode, cst.CSTNode, str]]:
    visitor = _Visitor(path)
    wrapper.visit(visitor)
    return visitor.found


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.found: list[tuple[Place, cst.CSTNode, cst.CSTNode, str]] = []
        self._names: list[str] = []
        self._number = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _left_out(node):
            return False
        self._number += 1
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._names.append(node.name.value)
        for name, new in _variants(node):
            line = self.get_metadata(PositionProvider, node).start.line
            place = Place(self.path, line, name, self._number, len(self.found))
            self.found.append((place, node, new, ".".join(self._names)))
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef) and not _left_out(original_node):
            self._names.pop()


def _variants(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    for kind, operator in (*mutation_operators, *OURS):
        if isinstance(node, kind):
            made = list(operator(node))
            kept = made[:1] if operator is operator_string else made  # one of its three is enough
            if operator is operator_arg_removal:
                kept = [new for new in made if _args_left_out(new) == _args_left_out(node)]
            yield from ((operator.__name__, new) for new in kept if not new.deep_equals(node))


def _args_left_out(call: cst.Call) -> list[cst.Arg]:
    return [one for one in call.args if _left_out(one)]


def _left_out(node: cst.CSTNode) -> bool:
    """Tell whether a change in here shows nothing: types, words for people, what cannot be."""
    match node:
        case cst.Annotation() | cst.Decorator() | cst.Import() | cst.ImportFrom() | cst.Assert():
            left_out = True
        case cst.AnnAssign(annotation=cst.Annotation(annotation=cst.Name(value="TypeAlias"))):
            left_out = True
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString() | cst.Ellipsis()):
            left_out = True
        case cst.If(test=cst.Name(value="TYPE_CHECKING")):
            left_out = True
        case cst.FunctionDef():
            left_out = any(m.matches(one.decorator, m.Name("overload")) for one in node.decorators)
        case cst.Call(func=cst.Name(value=name)):
            left_out = name in LEFT_OUT
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            left_out = name.startswith("__")
        case cst.Arg(value=value, keyword=keyword):
            left_out = _is_text(value) or (keyword is not None and keyword.value == "strict")
        case _:
            left_out = False
    return left_out


def _is_text(node: cst.CSTNode) -> bool:
    """Tell whether it is a sentence: what it says is for people."""
    match node:
        case cst.SimpleString(value=words) | cst.FormattedStringText(value=words):
            return words.count(" ") > 1 and words.upper() != words
        case cst.FormattedString(parts=parts):
            return any(map(_is_text, parts))
        case cst.ConcatenatedString(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case _:
            return False


def nothing_done(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Leave out a statement: a call, a return, an error, the end of a loop."""
    kinds = m.Expr(value=~(m.SimpleString() | m.ConcatenatedString() | m.Ellipsis())) | m.Raise() | m.Return()
    if m.matches(node, kinds) and not _cannot_be(node):
        yield cst.Pass()


def _cannot_be(node: cst.CSTNode) -> bool:
    return bool(m.findall(node, m.Call(func=m.Name("AssertionError") | m.Name("assert_never"))))


def returns_none(node: cst.Return) -> Iterator[cst.CSTNode]:
    """Return nothing, or the opposite."""
    if node.value is not None and not m.matches(node.value, m.Name("None")):
        yield node.with_changes(value=cst.Name("None"))


def other_way(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Take the other branch."""
    test = node.test
    opposite = cst.UnaryOperation(
        cst.Not(), test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )
    yield node.with_changes(test=opposite)


OURS: tuple[tuple[type, Operator], ...] = (
    (cst.BaseSmallStatement, nothing_done),
    (cst.Return, returns_none),
    (cst.If, other_way),
    (cst.While, other_way),
    (cst.CompIf, other_way),
)
