"""eventlet is refused before any I/O; gevent works. On real servers: ``integration/test_gevent.py``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import recipes

SAID = r"eventlet.monkey_patch\(\) has replaced select, socket in this process.*or gevent"

EVENTLET = """
import select


def monkey_patch():
    patched.update({"select", "socket"})
    del select.poll


def is_monkey_patched(name):
    return name in patched


patched = set()
"""
"""What eventlet does as far as a client sees it."""

PROGRAM = """
import sys
import eventlet.patcher
if sys.argv[2] == "first":
    eventlet.patcher.monkey_patch()
import recipes
try:
    client = recipes.connect(sys.argv[1])
    eventlet.patcher.monkey_patch()
    client.open()
except RuntimeError as error:
    print(error)
"""


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[str]], None]:
    """Have eventlet imported, and these modules patched."""

    def patch(names: set[str]) -> None:
        module: Any = ModuleType("eventlet.patcher")
        module.is_monkey_patched = names.__contains__
        monkeypatch.setitem(sys.modules, "eventlet.patcher", module)

    return patch


@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
@pytest.mark.parametrize(
    "url", ["memory://", "sqlite:///none/x", "etcd://none.invalid", "zookeeper://none.invalid"]
)
def test_a_process_that_eventlet_patched_is_refused_at_connect(
    patched: Callable[[set[str]], None], connect: Callable[[str], Any], url: str
) -> None:
    patched({"select", "socket"})
    with pytest.raises(RuntimeError, match=SAID):
        connect(url)


def test_one_that_is_patched_later_is_refused_at_the_first_use(patched: Callable[[set[str]], None]) -> None:
    async def use(client: recipes.AsyncClient) -> None:
        with pytest.raises(RuntimeError, match=SAID):
            await client.open()

    blocking, loops = recipes.connect("memory://"), recipes.connect_async("memory://")
    patched({"select", "socket"})
    for first in (blocking.open, blocking.lock("x").acquire, blocking.lock("x").try_acquire):
        with pytest.raises(RuntimeError, match=SAID):
            first()
    asyncio.run(use(loops))


@pytest.mark.parametrize("names", [set(), {"time", "os"}])
def test_eventlet_that_is_only_imported_is_nothing(
    patched: Callable[[set[str]], None], names: set[str]
) -> None:
    """As etcd3gw does, by way of futurist, wherever eventlet is installed."""
    patched(names)
    with recipes.connect("memory://") as client, client.lock("x") as grant:
        assert grant.held


@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("url", ["sqlite:///none/x", "etcd://none.invalid", "zookeeper://none.invalid"])
def test_a_whole_program_under_eventlet_is_told_what_to_do(tmp_path: Path, when: str, url: str) -> None:
    package = tmp_path / "eventlet"
    package.mkdir()
    package.joinpath("__init__.py").touch()
    package.joinpath("patcher.py").write_text(EVENTLET)
    program = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}",
        url,
        when,
    ]
    said = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert "has replaced select, socket in this process" in said.stdout


def test_a_program_under_gevent_holds_and_waits(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    program = [sys.executable, "-m", "tests.run.greenlets", url]
    said = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout == "granted\n", said.stderr


def test_a_greenlet_that_asks_a_gate_inside_of_another_is_refused(tmp_path: Path) -> None:
    """It waited for the lock of the file, and with it the thread in which the other would have left."""
    program = [sys.executable, "-m", "tests.run.greenlets_at_a_gate", f"{tmp_path}/catalog"]
    said = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout.startswith("this thread is already inside the gate of"), said.stderr


def test_a_program_that_gevent_patches_late_keeps_what_it_entered() -> None:
    program = [sys.executable, "-m", "tests.run.late_greenlets"]
    said = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert said.stdout == "held\n", said.stderr
