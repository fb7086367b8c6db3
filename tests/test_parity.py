"""The blocking and the asyncio API are the same, but for ``await``, and each is documented in full."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import recipes
from recipes import client, fencing, grant, lock

PAIRS: list[tuple[Any, Any]] = [
    (recipes.Client, recipes.AsyncClient),
    (recipes.Lock, recipes.AsyncLock),
    (recipes.Grant, recipes.AsyncGrant),
    (recipes.RLock, recipes.AsyncRLock),
    (recipes.ReadWriteLock, recipes.AsyncReadWriteLock),
    (recipes.ReadLock, recipes.AsyncReadLock),
    (recipes.WriteLock, recipes.AsyncWriteLock),
    (recipes.WriteGrant, recipes.AsyncWriteGrant),
    (recipes.Semaphore, recipes.AsyncSemaphore),
    (recipes.SemaphoreGrant, recipes.AsyncSemaphoreGrant),
    (recipes.Election, recipes.AsyncElection),
    (recipes.Leadership, recipes.AsyncLeadership),
    (recipes.Group, recipes.AsyncGroup),
    (recipes.Membership, recipes.AsyncMembership),
    (recipes.MultiLock, recipes.AsyncMultiLock),
    (recipes.MultiGrant, recipes.AsyncMultiGrant),
    (recipes.Partitions, recipes.AsyncPartitions),
    (recipes.Value, recipes.AsyncValue),
    (recipes.Counter, recipes.AsyncCounter),
    (recipes.Latch, recipes.AsyncLatch),
    (recipes.Barrier, recipes.AsyncBarrier),
    (grant.Lost, grant.AsyncLost),
    (fencing.SqlGate, fencing.AsyncSqlGate),
    (fencing.RedisGate, fencing.AsyncRedisGate),
]
GATES = [pair for pair in PAIRS if pair[0].__module__.startswith("recipes.fencing")]
IDS = [blocking.__name__ for blocking, _ in PAIRS]

RECIPES: dict[str, tuple[Any, Any]] = {
    "lock": (recipes.Lock, recipes.AsyncLock),
    "rlock": (recipes.RLock, recipes.AsyncRLock),
    "rwlock": (recipes.ReadWriteLock, recipes.AsyncReadWriteLock),
    "semaphore": (recipes.Semaphore, recipes.AsyncSemaphore),
    "election": (recipes.Election, recipes.AsyncElection),
    "group": (recipes.Group, recipes.AsyncGroup),
    "multilock": (recipes.MultiLock, recipes.AsyncMultiLock),
    "value": (recipes.Value, recipes.AsyncValue),
    "counter": (recipes.Counter, recipes.AsyncCounter),
    "latch": (recipes.Latch, recipes.AsyncLatch),
    "barrier": (recipes.Barrier, recipes.AsyncBarrier),
}
"""What the methods of the clients make."""

#: Where asyncio takes more, because it can do more.
MORE = {
    ("Client", "lock"): {"on_lost"},
    ("Client", "rlock"): {"on_lost"},
    ("Client", "rwlock"): {"on_lost"},
    ("Client", "semaphore"): {"on_lost"},
    ("Client", "election"): {"on_lost"},
    ("Lock", "__init__"): {"on_lost"},
    ("RLock", "__init__"): {"on_lost"},
    ("Semaphore", "__init__"): {"on_lost"},
    ("Election", "__init__"): {"on_lost"},
    ("Client", "group"): {"on_lost"},
    ("Group", "__init__"): {"on_lost"},
    ("Client", "multilock"): {"on_lost"},
    ("MultiLock", "__init__"): {"on_lost"},
    ("ReadLock", "__init__"): {"on_lost"},
    ("WriteLock", "__init__"): {"on_lost"},
    ("ReadWriteLock", "__init__"): {"on_lost"},
    ("Grant", "__init__"): {"cancels"},
    ("WriteGrant", "__init__"): {"cancels"},
    ("SemaphoreGrant", "__init__"): {"cancels"},
    ("Leadership", "__init__"): {"cancels"},
    ("Membership", "__init__"): {"cancels"},
    ("MultiGrant", "__init__"): {"cancels"},
}
MEMBERS = [
    (blocking, twin, name)
    for blocking, twin in PAIRS
    for name in sorted(dir(blocking))
    if not name.startswith("_") or name == "__init__"
]
each_member = pytest.mark.parametrize(
    ("blocking", "twin", "name"), MEMBERS, ids=[f"{b.__name__}.{name}" for b, _, name in MEMBERS]
)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "twin"), PAIRS, ids=IDS)
def test_the_same_public_members(blocking: Any, twin: Any) -> None:
    assert public(blocking) == public(twin)
    assert twin.__name__ == f"Async{blocking.__name__}"


@pytest.mark.parametrize(("blocking", "twin"), PAIRS, ids=IDS)
def test_the_same_protocol_of_a_context_manager(blocking: Any, twin: Any) -> None:
    for plain, awaited in (("__enter__", "__aenter__"), ("__exit__", "__aexit__")):
        assert hasattr(blocking, plain) == hasattr(twin, awaited)
        assert not hasattr(twin, plain)
        assert not hasattr(blocking, awaited)


@each_member
def test_the_same_parameters(blocking: Any, twin: Any, name: str) -> None:
    one, other = (inspect.getattr_static(kind, name) for kind in (blocking, twin))
    assert type(one) is type(other)
    if not isinstance(one, property):
        more = MORE.get((blocking.__name__, name), set())
        assert described(one) == {key: value for key, value in described(other).items() if key not in more}
        assert more <= set(described(other))


def described(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: (p.kind, p.default, _annotation(p)) for p in parameters}
    if function.__name__ == "__init__":
        return {name: kind[:2] for name, kind in kinds.items()}
    return kinds


def _annotation(parameter: inspect.Parameter) -> str:
    return str(parameter.annotation).replace("Async", "")


@each_member
def test_each_says_the_same_in_full(blocking: Any, twin: Any, name: str) -> None:
    one, other = (inspect.getattr_static(kind, name) for kind in (blocking, twin))
    if name == "__init__":  # the class documents it
        return
    assert one.__doc__, f"{blocking.__name__}.{name} is not documented"
    if (blocking, twin) in GATES:
        assert other.__doc__ == one.__doc__ or other.__doc__.startswith(
            f"Same as `{blocking.__name__}.{name}`"
        )
    elif blocking is recipes.Client and name in RECIPES:
        assert other.__doc__ == RECIPES[name][1].__doc__
    else:
        assert other.__doc__ == one.__doc__


@pytest.mark.parametrize(("blocking", "twin"), PAIRS, ids=IDS)
def test_the_classes_are_documented_in_full(blocking: Any, twin: Any) -> None:
    assert blocking.__doc__
    if (blocking, twin) in GATES:
        assert twin.__doc__.startswith(f"Same as `{blocking.__name__}`, but")
    else:
        assert "Same as" not in twin.__doc__
        assert set(parts(blocking)) <= set(parts(twin))


def parts(kind: type) -> list[str]:
    """Return what a docstring of a class explains one by one: sections, arguments, attributes, errors."""
    return re.findall(r"^ {4,8}(\w+):", kind.__doc__ or "", re.MULTILINE)


def test_the_two_connects() -> None:
    one, other = (inspect.signature(connect) for connect in (client.connect, client.connect_async))
    assert one.parameters == other.parameters
    assert client.connect_async.__doc__ == client.connect.__doc__


def test_the_two_connects_assume_the_same() -> None:
    settings = [connect("memory://")._runtime.settings for connect in (client.connect, client.connect_async)]
    parameters = inspect.signature(client.connect_async).parameters
    assert settings[0] == settings[1]
    assert settings[1].session_timeout_s == parameters["session_timeout"].default
    assert settings[1].request_timeout_s == parameters["request_timeout"].default


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("kind", [recipes.Client, recipes.AsyncClient])
def test_a_client_shows_what_its_recipes_take(kind: type, name: str) -> None:
    noun = RECIPES[name][kind is recipes.AsyncClient]
    method = getattr(kind, name)
    itself, runtime, *parameters = inspect.signature(noun.__init__).parameters.values()
    assert runtime.name == "runtime"
    shown = inspect.signature(method)
    assert list(shown.parameters.values()) == [itself, *parameters]
    assert shown.return_annotation is noun
    assert inspect.isfunction(method)
    assert (method.__module__, method.__qualname__) == ("recipes.client", f"{kind.__name__}.{name}")
    assert inspect.getdoc(method) == inspect.getdoc(noun)


@each_member
def test_what_waits_is_awaited(blocking: Any, twin: Any, name: str) -> None:
    one, other = (inspect.getattr_static(kind, name) for kind in (blocking, twin))
    awaited = {
        "open",
        "close",
        "acquire",
        "campaign",
        "try_acquire",
        "release",
        "verify",
        "wait",
        "downgrade",
    }
    awaited |= {"admit", "eval", "transaction"}
    awaited |= {"leader", "proclaim", "run"}
    awaited |= {"contenders", "evict", "holders", "locked", "locks", "waiters"}
    awaited |= {"join", "members", "next", "update"}
    awaited |= {"add", "count_down", "delete", "get", "left", "set", "set_if"}
    awaited |= {"enter", "leave"}
    assert not inspect.iscoroutinefunction(one)
    awaitable = name in ("acquire", "campaign", "join")
    assert (inspect.iscoroutinefunction(other) or awaitable) == (name in awaited)
    assert hasattr(lock.Acquiring, "__await__")


def test_every_public_callable_has_keyword_only_options() -> None:
    for kind in (recipes.Lock, recipes.AsyncLock):
        assert inspect.signature(kind.acquire).parameters["timeout"].kind is inspect.Parameter.KEYWORD_ONLY
    for option in list(inspect.signature(client.connect).parameters.values())[1:]:
        assert option.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
