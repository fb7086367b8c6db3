"""Any call, in any order, on any grant: what users may get wrong, and what must hold all the same.

One machine for both APIs and several stores. Calls are made in the test's own thread; those
that wait run beside it. Some calls are mistakes; each may raise, but only what the package promises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recipes import RecipesError
from tests.contract.apis import Api, Running

__all__ = ["Misuse"]

NAMES = ("a", "b")
KINDS = ("lock", "rlock", "reader", "writer")
CLIENTS = 3
MOST_WAITING = 3
WITHIN_S = 60.0
BAD_TIMEOUTS = (-1, float("nan"), float("-inf"), "soon", True)
FAILED: Any = object()
which = st.integers(0, 10_000)


class Taken:
    """A grant, and what is known of it."""

    def __init__(self, grant: Any, client: int, name: str, kind: str, after: int) -> None:
        self.grant = grant
        self.client = client
        self.name = name
        self.kind = kind
        self.after = after
        self.released = False
        self.doomed = False  # removed, or its session ended: the client may not know yet


class Misuse(RuleBasedStateMachine):
    """A few clients, two names, four kinds of locks."""

    api_type: ClassVar[type[Api]]

    def __init__(self) -> None:
        super().__init__()
        self.api = self.api_type()
        self.clients = [self.connect() for _ in range(CLIENTS)]
        self.closed = [False] * CLIENTS
        self.taken: list[Taken] = []
        self.waiting: list[tuple[Running, int, str, str, int]] = []

    def connect(self) -> Any:
        """Return a client of the store under test."""
        raise NotImplementedError

    def patiently(self, call: Callable[[], Any]) -> Any:
        """Make a call that may need time to pass."""
        return call()

    def left(self, name: str) -> list[Any]:
        """Return who stands in a queue."""
        raise NotImplementedError

    def over(self) -> None:
        """Close the store."""

    # What is done with what comes of a call.

    def lock(self, client: int, name: str, kind: str) -> Any:
        owner = self.clients[client]
        if kind in ("lock", "rlock"):
            return getattr(owner, kind)(name)
        return getattr(owner.rwlock(name), kind)

    def trying(self, call: Callable[[], Any]) -> Any:
        """Call; an error of the package is as good as any other end."""
        try:
            return self.patiently(lambda: self.api.do(call))
        except RecipesError:
            return FAILED

    def newest(self, name: str) -> int:
        return max((one.grant.token for one in self.taken if one.name == name), default=0)

    def take(self, grant: Any, client: int, name: str, kind: str, after: int) -> None:
        """Note a grant that a call returned; tokens grow, but for who enters again."""
        if grant is None or grant is FAILED:
            return
        again = [one for one in self.taken if one.name == name and one.grant.token == grant.token]
        if again:
            assert kind == "rlock", "a token was given twice"
            assert all((one.client, one.kind) == (client, kind) for one in again)
        else:
            assert grant.token > after, "a token is not larger than what was returned before"
        taken = Taken(grant, client, name, kind, after)
        taken.doomed = any(one.doomed for one in again)
        self.taken.append(taken)

    def some(self, number: int) -> Taken:
        return self.taken[number % len(self.taken)]

    def collect(self) -> None:
        """Take what came of the calls that waited."""
        for entry in list(self.waiting):
            running, client, name, kind, after = entry
            if running.done:
                self.waiting.remove(entry)
                error = running.error()
                assert error is None or isinstance(error, RecipesError), repr(error)
                if error is None:
                    self.take(running.result(), client, name, kind, after)

    # What users do.

    @rule(client=st.integers(0, CLIENTS - 1), name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS))
    def tries(self, client: int, name: str, kind: str) -> None:
        after = self.newest(name)
        lock = self.lock(client, name, kind)
        self.take(self.trying(lock.try_acquire), client, name, kind, after)

    @rule(
        client=st.integers(0, CLIENTS - 1),
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        timeout=st.sampled_from((0, 0.0, 0.001, 0.02)),
    )
    def acquires(self, client: int, name: str, kind: str, timeout: float) -> None:
        after = self.newest(name)
        lock = self.lock(client, name, kind)
        grant = self.trying(lambda: lock.acquire(timeout=timeout))
        self.take(grant, client, name, kind, after)

    @rule(client=st.integers(0, CLIENTS - 1), name=st.sampled_from(NAMES), kind=st.sampled_from(KINDS))
    def waits_beside(self, client: int, name: str, kind: str) -> None:
        if len(self.waiting) >= MOST_WAITING:
            return
        after = self.newest(name)
        lock = self.lock(client, name, kind)
        running = self.api.start(lambda: lock.acquire(timeout=None))
        self.waiting.append((running, client, name, kind, after))
        running.wait(0.02)
        self.collect()

    @rule(number=which, wait=st.booleans(), beside=st.booleans())
    def releases(self, number: int, wait: bool, beside: bool) -> None:
        if not self.taken:
            return
        taken = self.some(number)
        before = taken.grant.held

        def release() -> Any:
            return taken.grant.release(wait=wait)

        try:
            said = self.patiently(
                lambda: self.api.start(release).result(WITHIN_S) if beside else self.api.do(release)
            )
        except RecipesError:
            said = None
        assert not (said and taken.released), "released twice, and both times it was held"
        assert not said or before
        taken.released = True
        assert not taken.grant.held

    @rule(number=which, what=st.sampled_from(("verify", "check", "progress", "downgrade")))
    def asks(self, number: int, what: str) -> None:
        if not self.taken:
            return
        taken = self.some(number)
        call = getattr(taken.grant, what, None)
        if call is not None:
            self.trying(call)

    @rule(number=which, client=st.integers(0, CLIENTS - 1))
    def expels(self, number: int, client: int) -> None:
        if not self.taken:
            return
        taken = self.some(number)
        token = taken.grant.token
        if self.trying(lambda: self.lock(client, taken.name, "lock").evict(token)) is True:
            self.doom(lambda one: one.name == taken.name and one.grant.token == token)

    def doom(self, hit: Callable[[Taken], bool]) -> None:
        """From here on the client of these may believe what is not so, until it asks."""
        for one in self.taken:
            one.doomed = one.doomed or hit(one)

    @rule(
        client=st.integers(0, CLIENTS - 1),
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        inner=st.sampled_from(("release", "at once", "")),
    )
    def enters(self, client: int, name: str, kind: str, inner: str) -> None:
        if self.waiting or any(one.grant.held for one in self.taken if one.name == name):
            return  # it would wait for ever
        lock = self.lock(client, name, kind)
        after = self.newest(name)

        def body(grant: Any) -> Any:
            assert grant.held
            return grant

        def acquiring() -> Any:
            return lock.acquire(timeout=0) if inner == "at once" else lock

        try:
            grant = self.patiently(lambda: self.api.enter(acquiring, body))
        except RecipesError:
            return
        assert not grant.held
        self.take(grant, client, name, kind, after)
        self.taken[-1].released = True
        if inner == "release":
            assert self.trying(grant.release) is False

    @rule(
        client=st.integers(0, CLIENTS - 1), kind=st.sampled_from(KINDS), timeout=st.sampled_from(BAD_TIMEOUTS)
    )
    def gives_what_makes_no_sense(self, client: int, kind: str, timeout: Any) -> None:
        if not self.closed[client]:
            lock = self.lock(client, NAMES[0], kind)
            raised = self._raised(lambda: lock.acquire(timeout=timeout))
            assert isinstance(raised, ValueError | TypeError), repr(raised)
            assert isinstance(self._raised(lambda: self.lock(client, "", kind)), ValueError)

    def _raised(self, call: Callable[[], Any]) -> Exception | None:
        try:
            self.patiently(lambda: self.api.do(call))
        except Exception as error:
            return error
        return None

    @rule(client=st.integers(0, CLIENTS - 1))
    def closes(self, client: int) -> None:
        """Who waits is told, and whatever is called from now on says that it is closed."""
        self.trying(self.clients[client].close)
        self.closed[client] = True
        for running, owner, *_ in self.waiting:
            if owner == client:
                assert running.wait(WITHIN_S), "closing did not end a call that waits"
        self.collect()
        assert not any(one.grant.held for one in self.taken if one.client == client)
        assert self.trying(self.lock(client, NAMES[0], "lock").try_acquire) is FAILED

    @rule()
    def connects_anew(self) -> None:
        if not any(self.closed):
            return
        client = self.closed.index(True)
        self.clients[client], self.closed[client] = self.connect(), False

    # What must hold.

    @invariant()
    def what_was_released_is_not_held(self) -> None:
        assert not any(one.grant.held for one in self.taken if one.released)

    @invariant()
    def one_writes_at_a_time(self) -> None:
        self.collect()
        for name in NAMES:
            held = [one for one in self.taken if one.name == name and not one.doomed and one.grant.held]
            tokens = {one.grant.token for one in held}
            if any(one.grant.mode == "exclusive" for one in held):
                assert len(tokens) == 1, f"{len(tokens)} hold {name!r}, and one of them writes"

    @invariant()
    def a_client_lists_what_it_holds(self) -> None:
        for number, client in enumerate(self.clients):
            mine = {id(one.grant) for one in self.taken if one.client == number and one.grant.held}
            assert mine <= {id(grant) for grant in client.grants}

    def teardown(self) -> None:
        for client in range(CLIENTS):
            if not self.closed[client]:
                self.closes(client)
        assert self.waiting == []
        for name in NAMES:
            assert self.left(name) == []
        self.over()
        self.api.close()
