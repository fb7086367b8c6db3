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

PURE_STORE_PARTS = ("protocol", "layout", "codec", "requests")
FORBIDDEN = {
    "asyncio",
    "concurrent",
    "etcd3gw",
    "h11",
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
    parts = module.split(".")
    if parts[1:2] == ["_core"] or module == "recipes._run.interpreter":
        return True
    store = parts[1:2] == ["stores"] and len(parts) == 4
    return store and any(parts[3].startswith(part) for part in PURE_STORE_PARTS)


PURE = [module for module in MODULES if is_pure(module)]


def imports(module: str, *, typing_too: bool = False) -> Iterator[str]:
    """Names of what a module imports, at its top and in its functions."""
    tree = ast.parse(MODULES[module].read_text())
    for node in _walk(tree, typing_too=typing_too):
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
    assert {"_core.queueing", "_core.session", "_run.interpret"} <= names
    assert {"stores.etcd.protocol", "stores.etcd.codec", "stores.zookeeper.layout"} <= names
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


# Who may import whom; a layer's modules may import each other.
FACES = {"_lock_base", "client", "grant", "inspection", "lock", "rlock", "rwlock", "session"}
GUARDS = {"etcd", "zookeeper"}  # what is special to one store
VALUES = {"errors", "events", "guarantees", "_section", "_version"}  # what every layer speaks of


def layer(module: str) -> str:
    parts = module.split(".")[1:]
    if parts[:1] == ["stores"]:
        inside = {"": "contract", "base": "contract", "protocol": "contract", "engine": "engine"}
        inside["waiting"] = "waiting"  # how a thread waits, for drivers and transports alike
        inside |= dict.fromkeys(("credentials", "secret", "tls"), "entry")  # how a client enters a store
        if len(parts) > 2:
            return "protocols" if is_pure(module) else "transports"
        return inside.get("".join(parts[1:]), "engines")
    places = {"": "root", "_core": "core", "_run": "run", "cli": "cli", "__main__": "cli", "testing": "kit"}
    places |= {"fencing": "gates", "telemetry": "telemetry"}
    places |= (
        dict.fromkeys(FACES, "faces") | dict.fromkeys(GUARDS, "guards") | dict.fromkeys(VALUES, "values")
    )
    return places.get("".join(parts[:1]), f"a new place: {module}")


ALLOWED = {
    "values": set(),
    "core": {"values", "contract"},  # events are what a program is told
    "contract": {"values", "core"},  # operations are what a protocol carries out
    "entry": {"values", "waiting"},  # for a password
    "engine": {"values", "contract", "engines", "entry"},
    "protocols": {"values", "core", "contract"},
    "waiting": set(),
    "run": {"values", "core", "contract", "waiting"},
    "engines": {"values", "core", "contract", "engine", "protocols", "transports", "clock", "entry"},
    "transports": {"values", "contract", "protocols", "clock", "engines", "waiting", "entry"},
    "faces": {"values", "core", "run", "contract", "engine", "entry"},
    "root": {"values", "faces"},
    "guards": {"core", "engines", "faces"},
    "telemetry": {"values", "run", "clock"},  # made of events
    "gates": {"values", "core"},  # for resources that know nothing of our stores
    "kit": {"values", "core", "run", "contract", "engines", "faces"},
    "cli": {"root", "values", "faces", "clock", "engine", "cli"},
}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    own = layer(module)
    allowed = ALLOWED[own] | {own}
    for name in imports(module):
        if name == "recipes" or name.startswith("recipes."):
            target = "clock" if name == "recipes._run.clock" and "clock" in allowed else layer(name)
            assert target in allowed, f"{module} ({own}) imports {name} ({target})"


def test_the_programs_know_no_store_and_no_driver() -> None:
    for module in MODULES:
        if layer(module) == "core":
            for name in imports(module, typing_too=True):
                assert not name.startswith(
                    ("recipes._run", "recipes.stores.etcd", "recipes.stores.zookeeper")
                )


@pytest.mark.parametrize("module", MODULES)
def test_only_its_own_folder_imports_what_one_place_is_built_on(module: str) -> None:
    drivers = {
        "kazoo": "recipes.stores.zookeeper",
        "etcd3gw": "recipes.stores.etcd",
        "h11": "recipes.stores.etcd",
        "opentelemetry": "recipes.telemetry.otel",
        "prometheus_client": "recipes.telemetry.prometheus",
        "sqlalchemy": "recipes.fencing.connections",
        "rich": "recipes.cli",
        "click": "recipes.cli",
        "sqlite3": "recipes.stores.sqlite",
    }
    for name in imports(module):
        home = drivers.get(name.split(".")[0])
        assert home is None or module.startswith(home), f"{module} imports {name}"
