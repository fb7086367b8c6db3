"""One system call of a client fails, each in turn.

Every call of the package ends in time, with success or one of its errors, and nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration import servers
from integration.breaking.breaker import built
from integration.breaking.judge import LEFT_S, Breaking, laid_out
from integration.breaking.stores import STORES, left, prepared
from integration.needing import needed

STRIDE = 40
FIRST = ("sqlite", "etcd-grpc")
"""The stores of the default run; ``nox -s faults`` has the others."""

pytestmark = pytest.mark.timeout(7200)


@pytest.fixture(
    params=[pytest.param(name, marks=() if name in FIRST else pytest.mark.long) for name in STORES],
    scope="module",
)
def store(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Yield each store, started for this."""
    with needed(request.param, STORES[request.param]) as server:
        yield server


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library that breaks system calls."""
    folder = tmp_path_factory.mktemp("breaker")
    return needed("what breaks system calls", lambda: built(folder))


@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_fault_55_a_system_call_fails(
    store: servers.Server,
    library: Path,
    api: str,
    stride: int,
    figure: Callable[[str], None],
) -> None:
    prefix = f"breaking-{api}-{stride}"
    url, options = prepared(store, prefix)
    with Breaking(library, url, api, options) as breaking:
        found = breaking.run(list(laid_out(breaking.counted, stride)))
    wrong = [one.account for one in found if one.wrong]
    figure(f"{len(found)} places of {sum(breaking.counted.values())}, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    remains = left(store, prefix, LEFT_S, found)
    of = [one.account for one in found if one.name in str(remains)]  # and some of names that begin alike
    assert not remains, "\n".join([*remains, *of])
