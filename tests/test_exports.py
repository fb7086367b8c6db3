"""What modules export, and what importing and using the package does by default."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recipes
from tests.test_purity import MODULES


def defines(module: str) -> bool:
    """Whether there is more in a module than a docstring."""
    return any(
        not isinstance(node, ast.Expr) and ast.unparse(node) != "from __future__ import annotations"
        for node in ast.parse(MODULES[module].read_text()).body
    )


EXPORTING = [module for module in MODULES if defines(module) and not module.endswith("__main__")]


def run(*lines: str) -> subprocess.CompletedProcess[str]:
    root = Path(recipes.__file__).parent.parent
    code = "\n".join(lines)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        timeout=180,
    )


def order(name: str) -> tuple[int, str]:
    """Constants, classes, functions: as ruff sorts them (RUF022)."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("module", EXPORTING)
def test_all_is_sorted_and_true(module: str) -> None:
    found = importlib.import_module(module)
    names = list(found.__all__)
    assert names == sorted(set(names), key=order)
    for name in names:
        assert hasattr(found, name), f"{module}.__all__ names {name}"


@pytest.mark.parametrize("module", EXPORTING)
def test_what_is_public_in_a_module_is_in_all(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    public = {name for name in defined if not name.startswith("_")}
    exported = set(importlib.import_module(module).__all__)
    private_module = any(part.startswith("_") for part in module.split(".")[1:]) or ".stores." in module
    if not private_module and ".cli" not in module:
        unexported = public - exported - UNEXPORTED.get(module, set())
        assert not unexported


#: Machinery of a public module that is not for users, and has no underscore to say so.
UNEXPORTED = {
    "recipes.partition": {"AsyncSharingGrant", "SharingGrant"},
    "recipes.events": {
        "Log",
        "emit",
        "event_of",
        "happened",
        "held_together",
        "noun_of",
        "prepare",
        "stacklevel",
        "titled",
        "transition_of",
        "wanted",
    },
    "recipes.inspection": {"checked_limit", "described", "observe"},
}


def test_the_root_only_re_exports_and_late() -> None:
    tree = ast.parse(MODULES["recipes"].read_text())
    for_types, at_run_time = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(for_types.test) == "TYPE_CHECKING"
    assert ast.unparse(at_run_time.test) == "not TYPE_CHECKING"
    assert [node.name for node in at_run_time.body if isinstance(node, ast.FunctionDef)] == ["__getattr__"]
    assert [node for node in tree.body if getattr(node, "name", "") == "__getattr__"] == []
    at_once = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert at_once == {"annotations", "import_module", "TYPE_CHECKING", "Any", "__version__"}
    imports = [node for node in for_types.body if isinstance(node, ast.ImportFrom)]
    modules = [alias for node in imports if node.module == "recipes" for alias in node.names]
    assert [(alias.name, alias.asname) for alias in modules] == [(name, name) for name in recipes._MODULES]
    seen_by_types = {
        str(node.module).removeprefix("recipes."): tuple(alias.name for alias in node.names)
        for node in imports
        if node.module != "recipes"
    }
    assert seen_by_types == recipes._WHERE
    assert set(recipes.__all__) == {name for names in seen_by_types.values() for name in names} | {
        "__version__"
    }
    assert set(recipes.__all__) | set(recipes._MODULES) <= set(dir(recipes))
    with pytest.raises(AttributeError, match="module 'recipes' has no attribute 'Locks'"):
        _ = recipes.Locks


@pytest.mark.parametrize("what", ["from recipes import *", "import recipes; recipes.events.configure"])
def test_a_name_of_the_root_is_there_when_it_is_used(what: str) -> None:
    done = run(what)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_error_is_at_the_root() -> None:
    from recipes import errors

    assert set(errors.__all__) <= set(recipes.__all__)


def test_the_root_is_what_users_see_and_nothing_slips_in() -> None:
    assert recipes.__all__ == [
        "AlreadyJoined",
        "Assignment",
        "AsyncBarrier",
        "AsyncClient",
        "AsyncCounter",
        "AsyncElection",
        "AsyncGrant",
        "AsyncGroup",
        "AsyncLatch",
        "AsyncLeadership",
        "AsyncLock",
        "AsyncMembership",
        "AsyncMultiGrant",
        "AsyncMultiLock",
        "AsyncObserving",
        "AsyncPartitions",
        "AsyncRLock",
        "AsyncReadLock",
        "AsyncReadWriteLock",
        "AsyncSemaphore",
        "AsyncSemaphoreGrant",
        "AsyncValue",
        "AsyncWriteGrant",
        "AsyncWriteLock",
        "Barrier",
        "BarrierBroken",
        "BarrierMismatch",
        "Client",
        "ClientClosed",
        "Closed",
        "ContenderInfo",
        "Counter",
        "Election",
        "Grant",
        "Group",
        "Guarantees",
        "Latch",
        "LatchMismatch",
        "Leader",
        "Leadership",
        "Lock",
        "LockError",
        "LockLost",
        "LockTimeout",
        "Member",
        "Membership",
        "MultiGrant",
        "MultiLock",
        "Observing",
        "OutcomeUnknown",
        "Partitions",
        "QueueFull",
        "RLock",
        "ReadLock",
        "ReadWriteLock",
        "RecipesError",
        "ReentrantCall",
        "Semaphore",
        "SemaphoreGrant",
        "Session",
        "SessionLost",
        "StaleToken",
        "StoreDenied",
        "StoreError",
        "StoreFull",
        "StoreRefused",
        "StoreTimeout",
        "StoreUnavailable",
        "StoreUntrusted",
        "TooWeak",
        "UpgradeError",
        "Value",
        "Versioned",
        "WouldDeadlock",
        "WriteGrant",
        "WriteLock",
        "__version__",
        "connect",
        "connect_async",
    ]


def test_a_loss_that_nobody_logs_waits_for_no_import() -> None:
    done = run(
        "import recipes, sys",
        "from recipes import events",
        "recipes.connect('memory://')",
        "assert not events.wanted('lock.lost')",
        "events.emit(events.Transition('lock.lost'))",
        "assert 'structlog' not in sys.modules",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_writes_the_log_is_there_before_anything_is_lost() -> None:
    done = run(
        "import logging, recipes, sys",
        "logging.basicConfig(level=logging.WARNING)",
        "recipes.connect('memory://')",
        "assert 'structlog' in sys.modules",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_locks_print_nothing_by_default() -> None:
    done = run(
        "import asyncio, recipes",
        "with recipes.connect('memory://') as client:",
        "    with client.lock('x') as grant: grant.check()",
        "    try: client.lock('x').acquire().release(); client.lock('').acquire()",
        "    except ValueError: pass",
        "    held = client.lock('y').acquire()",
        "    assert client.lock('y').try_acquire() is None",
        "async def main():",
        "    async with recipes.connect_async('memory://') as client:",
        "        async with client.lock('x'): pass",
        "        try: await client.lock('').acquire()",
        "        except ValueError: pass",
        "asyncio.run(main())",
        "import sys",
        "assert not {name.split('.')[0] for name in sys.modules} & {'kazoo', 'etcd3gw', 'requests'}",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("api", ["connect", "connect_async"])
@pytest.mark.parametrize(
    "url",
    [
        *("etcd://127.0.0.1:1/app", "etcds://h/app", "zookeeper://127.0.0.1:1/app", "sqlite:///no/x"),
        *("redis://127.0.0.1:1/0/app", "rediss://h"),
        *("postgresql://127.0.0.1:1/d/app", "mysql://127.0.0.1:1/d", "mariadb://h/d"),
    ],
)
def test_connect_does_no_io(api: Any, url: str) -> None:
    client = getattr(recipes, api)(url)
    assert client.session.state == "none"
    assert "session none" in repr(client)
