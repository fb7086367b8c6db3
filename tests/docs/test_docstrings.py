"""Every public object says what it does, what it takes, and what it raises."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import recipes

OF_PYTHON = {"recipes._api.acquiring.Acquiring.send", "recipes._api.acquiring.Acquiring.throw"}
"""What every coroutine has."""


def modules() -> Iterator[ModuleType]:
    """Yield the modules that users import: no private ones, and no store's insides."""
    yield recipes
    for found in pkgutil.iter_modules(recipes.__path__, "recipes."):
        name = found.name.removeprefix("recipes.")
        if not name.startswith("_") and name not in {"cli", "stores"}:
            yield importlib.import_module(found.name)


def documented() -> dict[str, Any]:
    """Return every public class and function, and the public members of the classes, by name."""
    found: dict[str, Any] = {}
    for module in modules():
        for thing in (getattr(module, name) for name in module.__all__):
            if inspect.isclass(thing):
                found |= members(thing)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return {name: thing for name, thing in found.items() if name not in OF_PYTHON}


def members(kind: type) -> dict[str, Any]:
    """Return the public methods and properties of a class that are written in this package."""
    found = {}
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name[:1] != "_" and inspect.isfunction(function) and function.__module__.startswith("recipes"):
            found[f"{function.__module__}.{function.__qualname__}"] = function
    return found


DOCUMENTED = documented()
FUNCTIONS = {name: thing for name, thing in DOCUMENTED.items() if inspect.isfunction(thing)}


def doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def told(thing: Any, section: str) -> list[str]:
    """Return the names that a section of a docstring explains."""
    found = re.search(rf"^{section}:\n((?: {{4}}.*\n?|\n)+)", doc(thing), re.MULTILINE)
    return [] if found is None else re.findall(r"^ {4}(\w+):", found[1], re.MULTILINE)


def refers(thing: Any) -> bool:
    """Whether a docstring leaves the details to another: the twin's, or that of the one it varies."""
    return re.search(r"^Same as `|; see `|\bSame as `", doc(thing)) is not None


def is_explained(parameter: str, thing: Any) -> bool:
    return parameter in told(thing, "Args") or f"``{parameter}" in doc(thing)


def test_there_are_objects_to_look_at() -> None:
    known = {"recipes.client.connect", "recipes.grant.Grant.release", "recipes.testing.store.Store.pause"}
    assert known <= set(DOCUMENTED)
    assert len(DOCUMENTED) > 150


def test_all_have_a_docstring_that_begins_with_a_sentence() -> None:
    first = {name: doc(thing).partition("\n\n")[0] for name, thing in DOCUMENTED.items()}
    assert [name for name, sentence in first.items() if not re.search(r"\w[^\n]*[.:;)]", sentence)] == []


def test_arguments_are_explained_and_no_others() -> None:
    wrong = {}
    for name, thing in FUNCTIONS.items():
        taken = [one for one in inspect.signature(thing).parameters if one not in {"self", "cls", "_lock"}]
        missing = [one for one in taken if not is_explained(one, thing) and not refers(thing)]
        unknown = set(told(thing, "Args")) - set(taken)
        if missing or unknown:
            wrong[name] = (missing, unknown)
    assert wrong == {}


def test_what_a_function_raises_itself_is_told() -> None:
    untold = {}
    for name, thing in FUNCTIONS.items():
        missing = raised_by(thing) - set(told(thing, "Raises"))
        if missing and not refers(thing):
            untold[name] = missing
    assert untold == {}


def raised_by(function: Any) -> set[str]:
    """Return the classes of errors that a function's own statements name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    names = {ast.unparse(error.func if isinstance(error, ast.Call) else error) for error in raised}
    return {name for name in names if name[:1].isupper()} - {"AssertionError"}


def test_errors_that_are_told_of_exist() -> None:
    for name, thing in DOCUMENTED.items():
        for error in told(thing, "Raises"):
            assert hasattr(recipes, error) or hasattr(builtins, error), f"{name} tells of {error}"
