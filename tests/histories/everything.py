"""The search for an order, once more, by trying every order: slow, and too simple to be wrong."""

from __future__ import annotations

import itertools

from tests.histories.linear import UNKNOWN, Model, Operation

__all__ = ["by_trying_everything"]


def by_trying_everything(model: Model, operations: list[Operation]) -> bool:
    """Whether any order of the operations, without some of the unknown ones, will do."""
    unknown = [one for one in operations if one.returned == UNKNOWN]
    known = [one for one in operations if one.returned != UNKNOWN]
    for count in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, count):
            if any(_will_do(model, order) for order in itertools.permutations([*known, *some])):
                return True
    return False


def _will_do(model: Model, order: tuple[Operation, ...]) -> bool:
    state = model.start
    for place, one in enumerate(order):
        if any(later.returned < one.called for later in order[place + 1 :]):
            return False
        after = model.step(state, one)
        if after is None:
            return False
        state = after
    return True
