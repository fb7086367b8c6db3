"""Which modules are changed, and which tests are to notice a change of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Questions", "modules", "questions"]

MODULES = ("recipes/_rules", "recipes/_contract", "recipes/_programs", "recipes/stores")
OWN = ("tests/rules", "tests/programs", "tests/stores", "tests/stores/kit")
NAMED = {"fence": "tests/fencing"}
"""Those whose tests have another name."""
ROOMS = {
    "recipes/_rules": ("tests/rules", "tests/programs"),
    "recipes/_programs": ("tests/programs",),
    "recipes/_contract": ("tests/programs", "tests/rules", "tests/stores/test_*.py"),
    "recipes/stores/_kit": ("tests/stores/kit", "tests/stores/test_*.py"),
    "recipes/stores": ("tests/stores/kit", "tests/stores/test_*.py"),
}
"""Beside the files that are named as the module: where else its tests are."""
LAST = ("test_barrier.py", "test_hall.py", "test_permits.py")
"""Of a room, those that take most of its time: each goes through many schedules."""
NOT_OF_TESTS = ("-k", "not planted_bug")
"""Leaves out what plants bugs itself: it is about the tests."""
SUBJECTS = {
    "barrier": ("Barriers", ""),
    "crew": ("Groups or Partitions", "partitions"),
    "fence": ("Guarded", ""),
    "members": ("Groups or Partitions", "group"),
    "observing": ("Observations or WatchedValues or Elections or Groups", "election"),
    "permits": ("Permits", "permits"),
    "readwrite": ("Reading or Writers", "locks"),
    "receipts": ("Values or Guarded or Counters or Latches", "values"),
    "reentry": ("Reentry or ReentrantInterrupts", ""),
    "rewriting": ("Elections or Groups", "election"),
    "roster": ("Groups or Partitions", "group"),
    "sharing": ("Partitions", "partitions"),
    "together": ("MultiLocks", "multilock"),
    "values": ("Values or Guarded or Counters or Latches", "values"),
    "waiters": ("Exclusion or Inspecting or Listings", ""),
}
"""Of the contract, and of the simulation, what is about a module of this name; of others all, and locks."""
SIMULATED = ("etcd", "zookeeper", "redis", "sql")


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked about a module: tests, one run after the other, then schedules of these stores."""

    tests: tuple[tuple[str, ...], ...]
    stores: tuple[str, ...]
    of: str


def modules(root: Path, only: str = "") -> list[str]:
    """Return the modules that are changed: all, or those with these words in their path."""
    found = (str(path.relative_to(root)) for part in MODULES for path in (root / part).rglob("*.py"))
    return sorted(path for path in found if only in path)


def questions(path: str, root: Path, *, quick: bool = False) -> Questions:
    """Return what is to notice a change of this module: its own tests first, then wider ones."""
    module = Path(path)
    engine = module.parent.name if module.parent.parent.name == "stores" else ""
    name, of = SUBJECTS.get(module.stem, ("", "locks"))
    own = dict.fromkeys(_own(module.stem, engine, root))
    rest = [one for one in _rooms(module, engine, root) if one not in own]
    contract = [(one, *(("-k", name) if name else ())) for one in _contract(module, engine)]
    runs = [(*files, *NOT_OF_TESTS) for files in (own, rest) if files] + contract
    if quick:
        return Questions(tuple(runs[:1]), (), of)
    return Questions(tuple(runs), tuple(_simulated(module, engine) if of else ()), of)


def _own(name: str, engine: str, root: Path) -> Iterator[str]:
    """Go through the files of tests that are named as a module is."""
    if name in NAMED:
        yield NAMED[name]
    for folder in (*OWN, f"tests/stores/{engine}"):
        for one in (f"test_{engine}_{name}", f"test_{name}"):
            found = [*(root / folder).glob(f"{one}.py"), *(root / folder).glob(f"{one}_*.py")]
            paths = sorted(str(path.relative_to(root)) for path in found)
            yield from (path for path in paths if engine in ("", "_kit") or engine in path)


def _rooms(module: Path, engine: str, root: Path) -> Iterator[str]:
    near = (f"tests/stores/test_{engine}*.py", f"tests/stores/{engine}/test_*.py")
    if engine in ("", "_kit"):
        near = next(rooms for part, rooms in ROOMS.items() if str(module).startswith(part))
    for room in near:
        found = root.glob(room if room.endswith(".py") else f"{room}/test_*.py")
        paths = (str(path.relative_to(root)) for path in found)
        yield from sorted(paths, key=lambda path: (path.endswith(LAST), path))


def _contract(module: Path, engine: str) -> Iterator[str]:
    if "cell" in module.stem:
        yield "tests/contract/test_memory_cell.py"
    elif engine in ("", "_kit"):
        yield "tests/contract/test_memory.py"
    elif engine == "sqlite":
        yield "tests/contract/test_sqlite.py"


def _simulated(module: Path, engine: str) -> Iterator[str]:
    if module.stem == "cell":
        yield "cell"
    elif engine in SIMULATED:
        yield engine
    elif engine == "" and "stores" not in module.parts:
        yield from ("etcd", "zookeeper")
    elif module.stem in ("receipts", "queue"):
        yield "sql"
