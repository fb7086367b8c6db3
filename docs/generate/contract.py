"""What works where, as the contract is run: the tests that pytest collects, by store and face."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import recipes
import recipes.etcd
import recipes.zookeeper
from docs.generate.tables import table

__all__ = ["support"]

ROOT = Path(__file__).parents[2]
FILES = {
    "tests/contract/test_memory.py": "memory",
    "tests/contract/test_sqlite.py": "sqlite",
    "integration/test_contract.py": "",  # names its servers in each test
    "integration/test_contract_redis.py": "",
}
RECIPES = {
    "lock": "Exclusion",
    "rlock": "Reentry",
    "rwlock": "Reading",
    "semaphore": "Permits",
    "multilock": "MultiLocks",
    "election": "Elections",
    "group": "Groups",
    "value": "Values",
    "counter": "Counters",
    "latch": "Latches",
    "barrier": "Barriers",
}
"""The part of the contract that is about each recipe; the other parts are about all, and run on all."""
GUARDS = {"etcd": recipes.etcd.guard, "zookeeper": recipes.zookeeper.guard}
BOTH = ["asyncio", "blocking"]
_TEST = re.compile(
    r"(?P<file>\S+\.py)::Test(?P<part>\w+)::(?P<test>\w+)\[(?:(?P<server>[a-z]+-[a-z\d.]+)-)?(?P<face>asyncio|blocking)"
)


def support() -> str:
    """Return on which stores recipes and guards are run."""
    run = _collected()
    stores = sorted({store for found in run.values() for store in found}, key=_order)
    recipes_ = {f"`{recipe}`": run[part] for recipe, part in _recipes().items()}
    rows = _joined(recipes_, stores)
    guarded = [store for store in stores if store.partition("-")[0] in GUARDS]
    rows.append(("a [guard](index.md#guards) for your own transaction", _named(guarded, stores), "", ""))
    heads = ["", "both APIs", "asyncio only", "blocking only"]
    return f"All: {', '.join(store.replace('-', ' ') for store in stores)}.\n\n{table(heads, rows)}"


def _joined(parts: dict[str, dict[str, set[str]]], stores: list[str]) -> list[tuple[str, ...]]:
    """Return one row for all parts that are run on the same stores."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, found in parts.items():
        alike[tuple(_listed(found, faces, stores) for faces in (BOTH, BOTH[:1], BOTH[1:]))].append(name)
    return [(", ".join(names), *cells) for cells, names in alike.items()]


def _listed(found: dict[str, set[str]], faces: list[str], stores: list[str]) -> str:
    """Return the stores on which a part is run in these faces, and no other."""
    return _named([store for store in stores if sorted(found.get(store, ())) == faces], stores)


def _named(some: list[str], stores: list[str]) -> str:
    return "all" if some == stores else ", ".join(store.replace("-", " ") for store in some)


def _recipes() -> dict[str, str]:
    """Return the parts about the recipes of a client; fails when there is a recipe that has none."""
    methods = {name: member for name, member in vars(recipes.Client).items() if inspect.isfunction(member)}
    # What `Recipe` makes says what it returns by the class, and all else by its name.
    found = {name for name in methods if inspect.isclass(inspect.signature(methods[name]).return_annotation)}
    assert found == set(RECIPES), f"recipes and parts of the contract differ: {found ^ set(RECIPES)}"
    return RECIPES


@cache
def _collected() -> dict[str, dict[str, set[str]]]:
    """Return the faces in which each part of the contract is run, by store."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        *FILES,
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # its user's wishes
    listing = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    run: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for found in _TEST.finditer(listing):
        run[found["part"]][FILES[found["file"]] or found["server"]].add(found["face"])
    return run


def _order(store: str) -> tuple[int, str]:
    places = ["memory", "sqlite", "zookeeper", "etcd", "postgres", "mariadb", "redis"]
    return places.index(store.partition("-")[0]), store
