"""Passwords and tokens show nowhere: not in logs at DEBUG, events, errors, reprs, nor on ``ps``."""

from __future__ import annotations

import base64
import contextlib
import gc
import io
import logging
import subprocess
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import structlog

import recipes
from integration import servers
from integration.credentials.finding import disguises, shown
from integration.credentials.servers import SENTINEL, USER
from integration.faults.actors import APIS, Actor, actor
from integration.proxy import Proxy
from recipes import events


@pytest.mark.parametrize("name", list(disguises(SENTINEL)))
def test_what_is_looked_for_is_found(name: str) -> None:
    written = disguises(SENTINEL)[name]
    assert len(written) >= 8
    assert name in shown([SENTINEL], f"before {written} after")


@pytest.mark.parametrize("before", ["", "a", "ab", f"{USER}:"])
def test_base64_is_found_wherever_it_begins(before: str) -> None:
    text = base64.b64encode(f"{before}{SENTINEL} and more".encode()).decode()
    assert shown([SENTINEL], text)


class Heard(logging.Handler):
    """Everything that anybody logs, formatted with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))
        if record.exc_info and record.exc_info[1] is not None:
            self.said.append(with_locals(record.exc_info[1]))


def with_locals(error: BaseException) -> str:
    """Return a traceback with the locals of each frame, but for those of the tests."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    parts = [whole]
    text = []
    while parts:
        one = parts.pop()
        text.append(str(one))
        parts += [other for other in (one.__cause__, one.__context__) if other is not None]
        text += [
            f"{frame.filename}: {frame.locals}"
            for frame in one.stack
            if "/integration/" not in frame.filename
        ]
    return "\n".join(text)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Yield what hears every logger at DEBUG, and every event as structlog would print it."""
    root, handler = logging.getLogger(), Heard()
    levels = {name: logging.getLogger(name).level for name in ("", "kazoo", "urllib3", "recipes", "asyncio")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.addHandler(handler)
    lines = io.StringIO()
    renderer = structlog.processors.JSONRenderer()
    unsubscribe = events.subscribe(
        lambda told: handler.said.append(f"{told!r} {renderer(None, '', {'transition': str(told)})!s}")
    )
    with contextlib.redirect_stderr(lines), contextlib.redirect_stdout(lines):
        yield handler
    unsubscribe()
    root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    handler.said.append(lines.getvalue())


def failing(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Return how a call failed, with all that a traceback could show."""
    try:
        call(*args, **options)
    except Exception as error:
        return f"{error!r} {error} {vars(error)} {with_locals(error)}"
    raise AssertionError("it should have failed")


def shaken(one: Actor, proxy: Proxy) -> list[str]:
    """Work with a client while its connections are reset, and silent; returns what failed."""
    held = one.acquire("x")
    waiting = one.start_acquire("x", timeout=30)
    proxy.reset()
    assert held.verify()
    proxy.blackhole()
    failed = [failing(held.verify), failing(one.try_acquire, "y")]
    proxy.reset()
    failed.append(failing(held.verify))
    proxy.heal()
    assert held.release()
    assert waiting.result(30).release()
    return failed


def written(one: object) -> str:
    """Return the repr of an object, which other threads may be changing, or ending, meanwhile."""
    for _ in range(10):
        try:
            return repr(one)
        except (ReferenceError, RuntimeError):
            continue
    return repr(one)


def tokens(one: Actor) -> list[str]:
    """Return the token of an etcd client."""
    link = one.client._runtime.state.session.connection
    login = getattr(link, "_login", None)
    return [str(login.token())] if login is not None else []


@pytest.mark.parametrize("api", APIS)
def test_no_secret_shows(server: servers.Server, prefix: str, heard: Heard, api: str) -> None:
    options = {**server.options, "session_timeout": 20, "request_timeout": 1}
    told: list[str] = []
    secrets = [SENTINEL]
    with Proxy.of(server) as proxy, contextlib.ExitStack() as stack:
        in_url = proxy.url(prefix).replace("://", f"://{USER}:{quote(SENTINEL, safe='')}@")
        rest = {name: value for name, value in options.items() if name not in ("username", "password")}
        for url, given in ((proxy.url(prefix), options), (in_url, rest)):
            one = actor(api, url, **given)
            stack.callback(one.close)
            told += shaken(one, proxy) if given is options else []
            assert one.acquire("z").release()
            secrets += tokens(one)
            told += [repr(one.client), repr(one.client.lock("x")), repr(one.client.session)]
        told += [
            failing(recipes.connect, in_url, **options),  # given twice
            failing(recipes.connect, in_url, **{**rest, "colour": "red"}),
            failing(recipes.connect, in_url.replace("@", "@@:x/"), **rest),
            failing(recipes.connect, proxy.url().replace("://", f"://{USER}:{SENTINEL}@"), **rest),
        ]
        wrong = {**options, "password": SENTINEL + SENTINEL}
        denied = actor(api, proxy.url(prefix), **wrong)
        stack.callback(denied.close)
        told.append(failing(denied.acquire, "x"))
        gone = actor(api, server.url(prefix).replace(server.address, "127.0.0.1:1"), **options)
        stack.callback(gone.close)
        told.append(failing(gone.open))
        ours = ("recipes.", "kazoo.", "etcd3gw.", "h11.", "puresasl.", "redis.")
        told += [written(one) for one in gc.get_objects() if str(type(one).__module__).startswith(ours)]
    told += heard.said
    told.append(subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout)
    assert len(told) > 50
    for text in told:
        assert not shown(secrets, text), text
