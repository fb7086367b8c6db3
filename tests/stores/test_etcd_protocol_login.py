"""Logging in, once for a request that was refused for its token, and then for all that follow."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.operations import End, Open
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.protocol_login import Asking
from recipes.stores.etcd.requests import EtcdError, LogIn, Post, Watch
from tests.stores.stepping import CONTEXT, MAILBOX, feed

POST = Post("/kv/txn", {})
WATCH = Watch(b"k", MAILBOX)
UNKNOWN, DENIED = EtcdError(16, "etcdserver: invalid auth token"), EtcdError(7, "permission denied")


@pytest.fixture
def asking() -> Asking:
    return Asking("etcd://e", named=True)


def test_a_session_logs_in_before_it_begins() -> None:
    etcd = EtcdProtocol("etcd://e", Layout("app"), 1, named=True)
    put = {"header": {"revision": 3}, "succeeded": True, "responses": [{"response_put": {}}]}
    asked = feed(etcd.open(Open(15), CONTEXT), 1, {"TTL": 15}, put)
    assert asked[0] == LogIn(0)


def test_who_has_no_name_never_logs_in() -> None:
    with pytest.raises(EtcdError):
        feed(Asking("etcd://e", named=False).ask(POST), UNKNOWN)
    with pytest.raises(StoreDenied, match="asks for a user"):
        feed(EtcdProtocol("etcd://e", Layout(""), 1).open(Open(15), CONTEXT), UNKNOWN)


def test_an_answer_is_passed_on(asking: Asking) -> None:
    assert feed(asking.ask(POST), {"a": 1}).result == {"a": 1}
    assert feed(asking.ask(Batch((POST, POST))), ({}, DENIED)).result == ({}, DENIED)


def test_an_unknown_token_is_replaced_and_the_request_sent_again(asking: Asking) -> None:
    asked = feed(asking.ask(POST), UNKNOWN, 4, {"a": 1})
    assert asked == [POST, LogIn(0), POST]
    assert asked.result == {"a": 1}
    assert feed(asking.ask(POST), UNKNOWN, 5, {})[1] == LogIn(4)


def test_what_is_refused_after_a_login_is_refused(asking: Asking) -> None:
    with pytest.raises(EtcdError):
        feed(asking.ask(POST), UNKNOWN, 1, UNKNOWN)
    with pytest.raises(EtcdError):
        feed(asking.ask(POST), DENIED)


def test_a_batch_is_sent_again_if_a_part_was_refused(asking: Asking) -> None:
    batch = Batch((WATCH, POST))
    asked = feed(asking.ask(batch), (7, UNKNOWN), 1, (8, {}))
    assert asked == [batch, LogIn(0), batch]
    assert asked.result == (8, {})


def test_a_watch_that_is_denied_may_only_have_an_old_token(asking: Asking) -> None:
    batch = Batch((WATCH,))
    assert feed(asking.ask(batch), (DENIED,), 1, (8,)).result == (8,)
    assert feed(asking.ask(WATCH), DENIED, 2, 8).result == 8
    assert feed(asking.ask(batch), (DENIED,), 3, (DENIED,)).result == (DENIED,)


def test_one_login_serves_all_that_were_refused_meanwhile(asking: Asking) -> None:
    one, other = asking.ask(POST), asking.ask(POST)
    assert (next(one), next(other)) == (POST, POST)
    assert one.throw(UNKNOWN) == LogIn(0)
    assert one.send(1) == POST
    assert other.throw(UNKNOWN) == POST


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (EtcdError(3, "etcdserver: authentication failed"), "the user or the password is wrong"),
        (EtcdError(8, "odd"), "login failed: odd"),
    ],
)
def test_a_login_that_is_refused(asking: Asking, error: Any, says: str) -> None:
    with pytest.raises(StoreDenied, match=says):
        feed(asking.log_in(), error)


def test_a_session_that_could_not_log_in_has_no_lease_to_revoke() -> None:
    """Newer etcds revoke for users alone: the same password would be sent once more."""
    etcd = EtcdProtocol("etcd://e", Layout("app"), 31, named=True)
    for _ in range(2):
        with pytest.raises(StoreDenied):
            feed(etcd.open(Open(5.0), CONTEXT), EtcdError(3, "etcdserver: authentication failed"))
    assert feed(etcd.end(End(), CONTEXT)) == []
    with pytest.raises(StoreUnavailable):
        feed(etcd.open(Open(5.0), CONTEXT), 1, StoreUnavailable("etcd://e", "cut"))
    with pytest.raises(StoreDenied):
        feed(etcd.open(Open(5.0), CONTEXT), EtcdError(3, "etcdserver: authentication failed"))
    assert feed(etcd.end(End(), CONTEXT), {}) == [Post("/lease/revoke", {"ID": 31})]


def test_a_store_without_users_is_used_without_one(asking: Asking) -> None:
    assert feed(asking.log_in(), EtcdError(9, "etcdserver: authentication is not enabled")).result is None


def test_a_denial_names_the_keys_that_a_role_has_to_permit() -> None:
    both = "keys from app/ up to app0 and from ~session/app/ up to ~session/app0"
    for root, keys in (("app", both), ("", "all keys")):
        etcd = EtcdProtocol("etcd://e", Layout(root), 1, named=True)
        with pytest.raises(StoreDenied, match=keys):
            feed(etcd.open(Open(15), CONTEXT), 1, DENIED)
