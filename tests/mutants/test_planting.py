"""What is planted is what it says: it can be put in place, it can be called, and something looks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.looking import UNIT
from tests.mutants.planting import CASES, Case
from tests.simulation.gates import GATE, OF
from tests.simulation.mutants import Mutant

KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def can_be_called(new: Any, old: Callable[..., Any]) -> bool:
    """Tell whether one takes what the other does, some of it in order and the rest by name."""
    parameters = inspect.signature(old).parameters.values()
    named = [one.name for one in parameters if one.kind in KEYWORDS]
    signature = inspect.signature(new)
    for in_order in range(len(named) + 1):
        try:
            signature.bind(*named[:in_order], **dict.fromkeys(named[in_order:]))
        except TypeError:
            continue
        return True
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_planted_replaces_something_that_is_there(case: Case) -> None:
    for patch in case.mutant.plant():
        before = getattr(patch.getter(), patch.attribute, None)
        with patch:
            after = getattr(patch.getter(), patch.attribute)
            if inspect.isroutine(before) and not inspect.isclass(after):
                assert can_be_called(after, before), f"{patch.attribute} fails by itself, as it is called"


def test_something_looks_for_each() -> None:
    for case in CASES:
        mutant = case.mutant
        tests = UNIT[mutant.where] if isinstance(mutant, Mutant) else (mutant.tests,)
        missing = [one for one in tests if not Path(one.partition("::")[0]).exists()]
        assert tests, mutant.name
        assert not missing, f"{mutant.name} is looked for by tests that are not there: {missing}"
        if isinstance(mutant, Mutant):
            assert mutant.of == "locks" or mutant.of in OF, mutant.name
            assert case.store in GATE, mutant.name
