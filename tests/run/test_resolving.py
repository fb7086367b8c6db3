"""The names of hosts, where a client in another loop's place is ended as the interpreter ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from recipes._run.tasks import _Threads

AT_EXIT = """
import asyncio, atexit
from recipes._run.tasks import _Threads

def end():
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_Threads())
        print(runner.run(resolve()))

async def resolve():
    found = await asyncio.get_running_loop().getaddrinfo("localhost", 1)
    return bool(found)

atexit.register(end)
"""


def test_a_name_is_resolved_as_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True, timeout=180
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_what_a_function_returns_and_raises_comes_back() -> None:
    async def asked() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_Threads())
        assert await loop.run_in_executor(None, divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 7, 0)

    asyncio.run(asked())
