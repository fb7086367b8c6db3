"""Where a scenario happens: a API, a prefix of its own, a proxy of its own, and the clients it makes.

A scenario mostly waits (for a session to end), so a test runs it for both APIs, and all other
cases that it names, at the same time, each in a lab and a thread of its own::

    @at_once(how=("cut", "blackhole"))
    def test_something(lab: Lab, how: str) -> None: ...
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Self

from integration import servers
from integration.faults.actors import APIS, Actor, actor
from integration.faults.looking import L5_S, contenders
from integration.faults.seen import Seen
from integration.faults.workers import Worker
from integration.opening import open_patiently
from integration.proxy import Proxy
from tests.pace import Pace

__all__ = ["LASTING_S", "REQUEST_S", "SESSION_S", "Lab", "at_once"]

SESSION_S = 6.0
"""Of a client that is to lose its session, and not before that: a machine may stand still for three seconds.

Its renewals are two seconds apart, and it is given up 0.6 s before its end.
"""
LASTING_S = 10.0  # of a client that outlives what is done to another; a lab that ends waits longer than this
REQUEST_S = 2.0
LONGEST_SCENARIO_S = 240


class Lab:
    """A context manager; when it ends its clients are closed, and none of their contenders may be left.

    Attributes:
        server: The server, or the cluster.
        prefix: The path of the URLs of its clients.
        api: "blocking" or "asyncio".
        name: A name for its lock.
        seen: The events of its clients.
        pace: By how much this machine is late.
        together: Meets all other cases of the test: ``wait`` returns when all are there.
        session_s: For how long a session of its clients lives by itself; a storm wants more.
    """

    name = "nightly/job"
    session_s = SESSION_S

    def __init__(
        self,
        server: Any,
        prefix: str,
        api: str,
        note: Callable[[str], None],
        together: threading.Barrier,
    ) -> None:
        self.server = server
        self.prefix = prefix
        self.api = api
        self.together = together
        self.figure = note
        if isinstance(server, servers.Redis):
            server.wait_granting()
        self._stack = contextlib.ExitStack()
        self.seen = self._stack.enter_context(Seen(of=prefix))
        self.pace = self._stack.enter_context(Pace())

    @cached_property
    def proxy(self) -> Proxy:
        """A proxy before the server; healed before the clients are closed."""
        return self._stack.enter_context(Proxy.of(self.server))

    def actor(self, *, proxied: bool = False, is_open: bool = True, **options: Any) -> Actor:
        """Return a client; straight to the server, or through the proxy."""
        url = (self.proxy if proxied else self.server).url(self.prefix)
        options = {"session_timeout": self.session_s, "request_timeout": REQUEST_S, **options}
        one = actor(options.pop("api", self.api), url, **options)
        self._stack.callback(one.close)
        if is_open:
            open_patiently(one)
        return one

    def worker(
        self, program: str = "worker", *args: object, session_s: float | None = None, proxied: bool = False
    ) -> Worker:
        """Return a client in a process of its own."""
        url = (self.proxy if proxied else self.server).url(self.prefix)
        length = self.session_s if session_s is None else session_s
        return self._stack.enter_context(Worker(f"faults.{program}", self.api, url, length, *args))

    def contenders(self) -> list[str]:
        """Return every contender of this lab, as the server shows it."""
        return contenders(self.server, self.prefix)

    def contenders_become(self, count: int, within_s: float = L5_S) -> bool:
        """Wait until there are so many contenders."""
        return servers.eventually(lambda: len(self.contenders()) == count, within_s)

    @property
    def failover_s(self) -> float:
        """Within how many seconds of a holder's death the next contender holds (L1)."""
        tick_s = self.server.tick_ms / 1000 if isinstance(self.server, servers.ZooKeeper) else 0
        return self.session_s + tick_s + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, *__: object) -> None:
        self.heal()
        died = not self.server.running  # no scenario leaves it dead
        self.server.start()
        self._stack.close()
        left = servers.settle(self.server, self.prefix)
        servers.clean(self.server, self.prefix)
        found: list[BaseException] = [] if error is None else [error]
        if died:
            found.append(AssertionError(f"the server has died: {self._last_words()}"))
        if left:
            found.append(AssertionError(f"left behind: {left.contenders}"))
        if found != [error]:
            raise_all("a scenario failed", found)

    def heal(self) -> None:
        """End what proxies do, so that clients can be closed."""
        if "proxy" in self.__dict__:
            self.proxy.heal()

    def _last_words(self) -> str:
        said = self.server.log_path.read_text(errors="replace").splitlines()
        return next((line for line in said if line.startswith(("panic:", "fatal error:"))), "without a word")


def at_once(
    kind: type[Lab] = Lab, /, **cases: tuple[Any, ...]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of a scenario: for each server in turn, with all its cases side by side."""
    values = list(itertools.product(APIS, *cases.values()))

    def decorate(scenario: Callable[..., None]) -> Callable[..., None]:
        def test(server: servers.Server, prefix: str, figure: Callable[[str], None]) -> None:
            failed: list[BaseException] = []
            together = threading.Barrier(len(values), timeout=LONGEST_SCENARIO_S)

            def run(number: int, api: str, *case: Any) -> None:
                named = ", ".join(map(str, (api, *case)))
                note = partial(_note, figure, named)
                try:
                    with kind(server, f"{prefix}/case-{number}", api, note, together) as lab:
                        scenario(lab, **dict(zip(cases, case, strict=True)))
                except BaseException as error:
                    together.abort()
                    error.add_note(f"in the case: {named}")
                    failed.append(error)

            _in_threads(run, [(number, *value) for number, value in enumerate(values)])
            alone = threading.BrokenBarrierError  # of those that another's failure left waiting
            raise_all("several cases failed", [e for e in failed if not isinstance(e, alone)] or failed)

        test.__name__ = scenario.__name__
        test.__qualname__ = scenario.__qualname__
        test.__module__ = scenario.__module__
        return test

    return decorate


def raise_all(what: str, errors: list[BaseException]) -> None:
    """Raise these errors, if there are any: one as it is, several as a group."""
    if errors:
        raise errors[0] if len(errors) == 1 else BaseExceptionGroup(what, errors)


def _note(figure: Callable[[str], None], case: str, text: str) -> None:
    figure(f"{case}: {text}")


def _in_threads(run: Callable[..., None], cases: list[tuple[Any, ...]]) -> None:
    threads = [threading.Thread(target=run, args=case, name=f"case-{case}") for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_SCENARIO_S)
    stuck = [thread.name for thread in threads if thread.is_alive()]
    assert not stuck, f"still running: {stuck}"
