"""What is pure does no I/O and reads no clock, and imports go in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import recipes

PACKAGE = Path(recipes.__file__).parent
MODULES = {
    ".".join(("recipes", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

PURE_PLACES = ("_contract", "_rules", "_programs")
PURE_MODULES = {f"recipes._run.{name}" for name in ("effects", "interpreter", "lanes")} | {
    "recipes.stores.receipts"
}
PURE_STORE_PARTS = (
    *("protocol", "layout", "keys", "codec", "requests", "queue", "cell"),
    *("acts", "inside", "statements", "tables", "texts"),  # of SQL
)
FORBIDDEN = {
    "asyncio",
    "concurrent",
    "etcd3gw",
    "h11",
    "hpack",
    "http",
    "kazoo",
    "os",
    "queue",
    "random",
    "requests",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tenacity",
    "threading",
    "time",
    "urllib3",
    "uuid",
}
CLOCKS = {
    "boot_time",
    "clock_gettime",
    "monotonic",
    "now_ns",
    "perf_counter",
    "sleep",
    "time_ns",
    "today",
    "utcnow",
}


def is_pure(module: str) -> bool:
    _, place, *inside = [*module.split("."), ""]
    if place in PURE_PLACES or module in PURE_MODULES:
        return True
    return place == "stores" and len(inside) == 3 and inside[1].startswith(PURE_STORE_PARTS)


PURE = [module for module in MODULES if is_pure(module)]


def imports(module: str, *, typing_too: bool = False) -> Iterator[str]:
    """Names of what a module imports, at its top and in its functions."""
    tree = ast.parse(MODULES[module].read_text())
    late = module == "recipes"  # it imports when used what it shows to type checkers
    for node in _walk(tree, typing_too=typing_too or late):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are banned"
            assert node.module is not None
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


def _walk(node: ast.AST, *, typing_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and not typing_too and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _walk(child, typing_too=typing_too)


def test_the_pure_modules_are_those_that_are_meant() -> None:
    names = {module.removeprefix("recipes.") for module in PURE}
    assert {"_contract.operations", "_rules.readwrite", "_programs.queueing", "_run.interpreter"} <= names
    assert {
        "stores.etcd.protocol",
        "stores.etcd.codec",
        "stores.zookeeper.layout",
        "stores._kit.queue",
        "stores._kit.cell",
        "stores.receipts",
    } <= names
    assert not {"stores.memory", "_run.runtime", "stores.etcd.wire"} & names


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_import_nothing_that_acts(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & FORBIDDEN


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_read_no_clock_and_toss_no_coin(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    bare = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not (names | bare) & CLOCKS
    assert not bare & {"open", "print", "input", "exec", "eval", "__import__", "globals"}


# Which layer may import which; the modules of one layer may import each other.
NOUNS = {
    "barrier",
    "client",
    "counter",
    "election",
    "grant",
    "group",
    "inspection",
    "latch",
    "lock",
    "multilock",
    "partition",
    "rlock",
    "rwlock",
    "semaphore",
    "session",
    "value",
    "_api",
}
GUARDS = {"etcd", "sql", "zookeeper"}  # what is special to one store
VALUES = {
    "errors",
    "events",
    "guarantees",
    "_callback",
    "_descriptors",
    "_disks",
    "_forks",
    "_mutex",
    "_printable",
    "_record",
    "_section",
    "_signals",
    "_threads",
    "_version",
}  # what every layer speaks of
PLACES = {
    "": "root",
    "_contract": "contract",
    "_rules": "rules",
    "_programs": "programs",
    "_run": "drivers",
    "__main__": "cli",
    "cli": "cli",
    "fencing": "gates",
    "telemetry": "telemetry",
    "testing": "kit",
    **dict.fromkeys(NOUNS, "nouns"),
    **dict.fromkeys(GUARDS, "guards"),
    **dict.fromkeys(VALUES, "values"),
}
STORES = {
    "": "stores",
    "registry": "registry",
    "receipts": "receipts",
    **dict.fromkeys(
        (
            *("addresses", "credentials", "secret", "sockets", "streams", "urls"),
            *("tls", "tls_alpn", "tls_files"),
        ),
        "entry",
    ),  # how a client enters a store
}
SHARED_PLACES = {"recipes._run.clock": "clock", "recipes._run.waiting": "waiting"}
"""What drivers and transports both use: the clock, and how a thread waits."""


def layer(module: str) -> str:
    if module in SHARED_PLACES:
        return SHARED_PLACES[module]
    place, inside, *rest = [*module.split(".")[1:], "", ""]
    if place != "stores":
        return PLACES.get(place, f"a new place: {module}")
    if inside == "_kit":
        return "queue kit" if rest[0] in {"queue", "cell"} else "store kit"
    if any(rest):
        return "protocols" if is_pure(module) else "transports"
    return STORES.get(inside, "backends")


ALLOWED = {
    "values": set(),
    "clock": set(),
    "waiting": set(),
    "contract": {"values"},  # events are what a program emits
    "rules": {"values", "contract"},
    "programs": {"values", "contract", "rules"},
    "entry": {"values", "waiting"},  # for a password
    "registry": {"values", "contract", "backends", "entry"},
    "receipts": {"values", "contract"},
    "queue kit": {"values", "contract", "receipts"},  # pure
    "store kit": {  # no store, and no program or rule
        *("values", "contract", "clock", "receipts", "queue kit"),
    },
    "protocols": {"values", "contract", "receipts", "queue kit"},
    "transports": {
        *("values", "contract", "receipts", "queue kit", "store kit", "protocols", "clock", "waiting"),
        *("backends", "entry"),
    },
    "backends": {
        *("values", "contract", "receipts", "queue kit", "store kit", "protocols", "transports", "clock"),
        "entry",
    },
    "drivers": {"values", "contract", "programs", "clock", "waiting"},
    "nouns": {"values", "contract", "rules", "programs", "drivers", "registry", "entry"},
    "root": {"values", "nouns", "guards", "gates", "telemetry", "kit"},  # what is asked of it, when it is
    "guards": {"values", "contract", "programs", "queue kit", "protocols", "transports", "backends", "nouns"},
    "telemetry": {"values", "drivers", "clock"},  # made of events
    "gates": {"values", "rules"},  # for resources that know nothing of our stores
    "kit": {"values", "contract", "rules", "programs", "drivers", "backends", "nouns", "clock"},
    "cli": {"root", "values", "nouns", "guards", "clock", "registry"},
}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    own = layer(module)
    for name in imports(module):
        if name == "recipes" or name.startswith("recipes."):
            assert layer(name) in ALLOWED[own] | {own}, f"{module} ({own}) imports {name} ({layer(name)})"


@pytest.mark.parametrize(
    "module", [one for one in MODULES if layer(one) in {"contract", "rules", "programs"}]
)
def test_programs_and_stores_meet_in_the_contract_only(module: str) -> None:
    for name in imports(module, typing_too=True):
        assert not name.startswith(("recipes._run", "recipes.stores")), name


@pytest.mark.parametrize(
    "module", [one for one in MODULES if layer(one) in {"protocols", "queue kit", "store kit"}]
)
def test_no_store_knows_a_program_or_a_rule(module: str) -> None:
    for name in imports(module, typing_too=True):
        assert not name.startswith(("recipes._programs", "recipes._rules", "recipes._run")) or (
            layer(name) == "clock"
        ), name


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Neither at its top, nor lazily, nor for its types."""
    graph = {
        module: {name for name in imports(module, typing_too=True) if name in MODULES} for module in MODULES
    }
    left = dict(graph)
    while ends := {module for module, needs in left.items() if not needs & left.keys() - {module}}:
        left = {module: needs for module, needs in left.items() if module not in ends}
    assert not left, sorted(left)


@pytest.mark.parametrize("module", MODULES)
def test_only_its_own_folder_imports_what_one_place_is_built_on(module: str) -> None:
    drivers: dict[str, str | tuple[str, ...]] = {
        "kazoo": "recipes.stores.zookeeper",
        "etcd3gw": "recipes.stores.etcd",
        "h11": "recipes.stores.etcd",
        "hpack": "recipes.stores.grpc",
        "opentelemetry": "recipes.telemetry.otel",
        "prometheus_client": "recipes.telemetry.prometheus",
        "sqlalchemy": ("recipes.fencing.connections", "recipes.stores.sql"),
        "rich": "recipes.cli",
        "click": "recipes.cli",
        "sqlite3": "recipes.stores.sqlite",
    }
    for name in imports(module):
        home = drivers.get(name.split(".")[0])
        assert home is None or f"{module}.".startswith(home), f"{module} imports {name}"
