"""What makes a process that only simulates quicker, and changes nothing that it shows."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

__all__ = ["collect", "hurried", "hurry"]

SETS = "object.__setattr__"


def hurry() -> None:
    """Have frozen records made as quickly as others, and garbage collected now and then only.

    A frozen dataclass sets each field by way of ``object.__setattr__``, which costs more than
    most steps of a schedule. That nobody changes a record is shown by all other tests.
    """
    for module in list(sys.modules.values()):
        if module.__name__.startswith("recipes."):
            for one in list(vars(module).values()):
                if isinstance(one, type) and one.__module__ == module.__name__:
                    _thaw(one)
    gc.collect()
    gc.freeze()
    gc.disable()


def collect() -> None:
    """Collect the garbage of some schedules."""
    gc.collect()


def hurried(jobs: int) -> ProcessPoolExecutor:
    """Return that many processes in which schedules run quickly; forked, for they share what was imported."""
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"), initializer=hurry)


def _thaw(record: type) -> None:
    if not (dataclasses.is_dataclass(record) and record.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        return
    del record.__setattr__, record.__delattr__
    fields = dataclasses.fields(record)
    odd = any(field.default_factory is not dataclasses.MISSING or not field.init for field in fields)
    if odd or not fields or hasattr(record, "__post_init__"):
        return
    scope = {f"_{field.name}": field.default for field in fields}
    wanted = (
        field.name if field.default is dataclasses.MISSING else f"{field.name}=_{field.name}"
        for field in fields
    )
    lines = "".join(f"    self.{field.name} = {field.name}\n" for field in fields)
    exec(f"def __init__(self, {', '.join(wanted)}):\n{lines}", scope)
    record.__init__ = scope["__init__"]  # type: ignore[misc]
