from __future__ import annotations

import json
import os
import pickle
import queue
import threading
import traceback
from typing import Any

import pytest

import recipes
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.stores.credentials import Credentials, apart
from recipes.stores.secret import Sealed, Secret
from tests.threads import refuse

PASSWORD = "pw-%/ñ"


def given(**options: Any) -> Credentials | None:
    return Credentials.given("etcd", apart("etcd://h", options)[1])


def test_a_secret_works_as_what_it_holds_and_does_not_show() -> None:
    secret = Secret(PASSWORD)
    assert secret == PASSWORD
    assert f"{secret}" == PASSWORD
    assert json.dumps({"password": secret}) == json.dumps({"password": PASSWORD})
    assert PASSWORD not in repr([secret, {"a": secret}])
    assert pickle.loads(pickle.dumps(secret)) == PASSWORD
    sealed = Sealed(b"abc")
    assert (sealed, repr(sealed)) == (b"abc", "<3 bytes>")


def test_a_password_is_a_text_or_asked_for() -> None:
    text = given(username="app", password=PASSWORD)
    assert text is not None
    assert text.password("h:1") == PASSWORD
    asked: list[int] = []
    called = given(username="app", password=lambda: f"{PASSWORD}{asked.append(1) or len(asked)}")
    assert called is not None
    assert [called.password("h:1") for _ in range(2)] == [f"{PASSWORD}1", f"{PASSWORD}2"]
    assert "app" not in repr(text)
    assert PASSWORD not in repr(text)
    assert isinstance(called.password("h:1"), Secret)
    assert given() is None
    assert given(username=None, password=None) is None


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"username": "app"}, ValueError, "password= is missing"),
        ({"password": PASSWORD}, ValueError, "username= is missing"),
        ({"username": "", "password": PASSWORD}, ValueError, "username= is empty"),
        ({"username": "app", "password": ""}, ValueError, "password= is empty"),
        ({"username": "a\0", "password": "x"}, ValueError, "username="),
        ({"username": "app", "password": "\ud800"}, ValueError, "password= is empty, or no text"),
        ({"username": 7, "password": "x"}, TypeError, "username= is text, not int"),
        ({"username": "app", "password": 7}, TypeError, "not int"),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        given(**options)


@pytest.mark.parametrize(("answer", "says"), [(None, "NoneType"), ("", "Secret"), (b"x", "bytes")])
def test_a_callable_that_gives_no_text(answer: Any, says: str) -> None:
    who = given(username="app", password=lambda: answer)
    assert who is not None
    with pytest.raises(StoreDenied, match=f"gave no text but {says}"):
        who.password("h:1")


def test_a_callable_that_gives_text_that_cannot_be_sent() -> None:
    who = given(username="app", password=lambda: "of a file\udc80")
    assert who is not None
    with pytest.raises(StoreDenied, match="no text that can be sent"):
        who.password("h:1")


def test_a_callable_that_raises() -> None:
    def broken() -> str:
        raise LookupError(PASSWORD)

    who = given(username="app", password=broken)
    assert who is not None
    with pytest.raises(StoreDenied, match="raised LookupError") as caught:
        who.password("h:1")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("raised", [LookupError, SystemExit, KeyboardInterrupt])
def test_a_callable_that_raises_is_asked_again_next_time(raised: type[BaseException]) -> None:
    answers: list[Any] = [raised("no"), PASSWORD]

    def password() -> str:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)

    who = Credentials("app", password)
    with pytest.raises(StoreDenied, match=f"password.. raised {raised.__name__}"):
        who.asker.within("h:1", 10)
    assert who.asker.within("h:1", 10) == PASSWORD


def test_all_who_wait_get_the_one_answer() -> None:
    called: list[int] = []
    going_on = threading.Event()

    def password() -> str:
        called.append(1)
        assert going_on.wait(10)
        return PASSWORD

    who = Credentials("app", password)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _ in range(3):
        who.asker.ask("h:1", answers.put)
    who.asker.ask("h:1", lambda answer: answers.put("nobody waits for this"))()
    going_on.set()
    assert [answers.get(timeout=10) for _ in range(3)] == [PASSWORD] * 3
    assert answers.empty()
    assert len(called) == 1


@pytest.mark.parametrize("begun", [False, True], ids=["before the thread", "after it began"])
def test_an_interrupt_while_the_thread_is_started(monkeypatch: pytest.MonkeyPatch, *, begun: bool) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if begun:
            begin(thread)
        raise KeyboardInterrupt

    who = Credentials("app", lambda: PASSWORD)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            who.asker.within("h:1", 10)
    assert who.asker.within("h:1", 10) == PASSWORD


def test_a_password_for_which_no_thread_can_be_started_is_asked_for_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    who = Credentials("app", lambda: PASSWORD)
    with monkeypatch.context() as patched:
        refuse(patched, "recipes-password")
        with pytest.raises(StoreUnavailable, match="can't start new thread") as refused:
            who.asker.within("h:1", 10)
    assert refused.value.unsent
    assert who.asker.within("h:1", 10) == PASSWORD


def test_a_fork_asks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not the thread that its parent's call runs in."""
    going_on, called = threading.Event(), queue.SimpleQueue[int]()

    def password() -> str:
        called.put(os.getpid())
        assert os.getpid() < 0 or going_on.wait(10)
        return PASSWORD

    who = Credentials("app", password)
    who.asker.ask("h:1", lambda answer: None)
    assert called.get(timeout=10) > 0
    monkeypatch.setattr(os, "getpid", lambda: -7)
    assert who.asker.within("h:1", 10) == PASSWORD
    going_on.set()


@pytest.mark.parametrize(
    ("url", "bare", "found"),
    [
        ("etcd://app:pw@h:1,i:2/root", "etcd://h:1,i:2/root", {"username": "app", "password": "pw"}),
        ("etcds://app:p%25w%2F%40@h/r", "etcds://h/r", {"username": "app", "password": "p%w/@"}),
        ("zookeeper://app@h", "zookeeper://h", {"username": "app"}),
        ("zookeeper://app:a:b@h", "zookeeper://h", {"username": "app", "password": "a:b"}),
        ("ETCD://a@b:pw@h", "ETCD://h", {"username": "a@b", "password": "pw"}),
        ("etcd://h/app", "etcd://h/app", {}),
        ("memory://a@b", "memory://a@b", {}),
        ("sqlite:///a@b", "sqlite:///a@b", {}),
        ("etcd:a@b", "etcd:a@b", {}),
        (7, 7, {}),
    ],
)
def test_a_url_is_taken_apart(url: Any, bare: Any, found: dict[str, Any]) -> None:
    assert apart(url, {}) == (bare, found)
    assert "pw" not in repr(apart(url, {}))


BAD = [
    ("etcd://app:pw-%25@h", {"username": "x", "password": "y"}, "both in the URL and in options"),
    ("etcd://app:pw@h", {"password": PASSWORD}, "both in the URL and in options"),
    (f"etcd://app:{PASSWORD}@h/a@b", {}, "percent-encoded"),
    ("etcd://app:pw-%/@h", {"colour": PASSWORD}, "percent-encoded"),
    ("etcd://app:pw-%?ñ@h", {}, "percent-encoded"),
    ("etcd://app:pw-%#ñ@h", {}, "percent-encoded"),
    ("etcd://app:pw-%25@h,app:pw-%25@i/x", {}, "stand once, before the first server"),
    ("etcd://h", {"username": "app", "password": PASSWORD, "colour": "red"}, "does not know the option"),
    ("etcd://app:pw-%25@h:x", {}, "no host:port"),
    ("etcd://app:pw-%25@[::1", {}, "no URL"),
    ("mongodb://app:pw-%25@h", {}, "unknown store 'mongodb'"),
    ("redis://app:pw-%25@h,i", {}, "names one server"),
    ("redis+cluster://app:pw-%25@h", {}, "replicas= is missing"),
    ("memory://h", {"username": "app", "password": PASSWORD}, "does not know the option 'password'"),
    ("sqlite:////h", {"password": PASSWORD}, "does not know the option 'password'"),
    ("etcd://:pw-%25@h", {}, "username= is empty"),
]


@pytest.mark.parametrize(("url", "options", "says"), BAD)
@pytest.mark.parametrize("api", [recipes.connect, recipes.connect_async])
def test_a_refusal_shows_no_secret(url: str, options: dict[str, Any], says: str, api: Any) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        api(url, **options)
    whole = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = [frame for frame in whole.stack if "/tests/" not in frame.filename]
    assert frames
    shown = f"{caught.value} {[frame.locals for frame in frames]}"
    assert "pw-%" not in shown.replace("'colour': 'pw-%/ñ'", "")


def test_connecting_takes_credentials_and_does_no_io() -> None:
    for url in ("etcd://h", "zookeeper://h", "redis://h"):
        client = recipes.connect(url, username="app", password=PASSWORD)
        assert PASSWORD not in repr(vars(client._runtime.backend))
        assert str(client) == f"<Client of {client._runtime.backend.label}: session none>"
    assert recipes.connect("etcd://app:pw@h/x")._runtime.backend.label == "etcd://h:2379/x"
