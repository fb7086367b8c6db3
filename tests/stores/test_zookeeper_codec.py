"""Requests and replies on the wire, beside kazoo's own."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from recipes._contract.connection import Request
from recipes.stores.zookeeper.codec import Unread, acl_bytes, encoded
from recipes.stores.zookeeper.requests import (
    Children,
    Close,
    Create,
    Delete,
    Exists,
    Get,
    SetData,
    Stat,
    Sync,
)

STAT = (11, 12, 13, 14, -5, 6, 7, -(2**63), 8, 9, 15)
OURS = Stat(czxid=11, owner=-(2**63), version=-5)


class Box:
    def post(self, event: object) -> None:
        raise AssertionError("nothing should be told here")


def as_sent(text: str) -> bytes:
    return kazoo.write_string(text) or b""


@pytest.mark.parametrize(
    ("request_", "theirs"),
    [
        (Create("/q", b"data"), kazoo.Create2("/q", b"data", OPEN_ACL_UNSAFE, 0)),
        (Create("/ü", ephemeral=True), kazoo.Create2("/ü", b"", OPEN_ACL_UNSAFE, 1)),
        (Create("/q", sequence=True), kazoo.Create2("/q", b"", OPEN_ACL_UNSAFE, 2)),
        (Create("/q", ephemeral=True, sequence=True), kazoo.Create2("/q", b"", OPEN_ACL_UNSAFE, 3)),
        (Children("/q"), kazoo.GetChildren("/q", None)),
        (Children("/q", Box(), "q"), kazoo.GetChildren("/q", print)),
        (Get("/q"), kazoo.GetData("/q", None)),
        (Get("/q", Box()), kazoo.GetData("/q", print)),
        (Exists("/q"), kazoo.Exists("/q", None)),
        (Exists("/q", Box(), "q"), kazoo.Exists("/q", print)),
        (SetData("/q", b"x", 7), kazoo.SetData("/q", b"x", 7)),
        (Delete("/q"), kazoo.Delete("/q", -1)),
        (Sync("/"), kazoo.Sync("/")),
    ],
)
def test_requests_are_as_kazoo_sends_them(request_: Request[Any], theirs: Any) -> None:
    kind, body, _ = encoded(request_, acl_bytes(OPEN_ACL_UNSAFE))
    assert (kind, body) == (theirs.type, bytes(theirs.serialize()))


def test_access_is_as_kazoo_sends_it() -> None:
    acl = [*CREATOR_ALL_ACL, *OPEN_ACL_UNSAFE]
    _, body, _ = encoded(Create("/q"), acl_bytes(acl))
    assert body == kazoo.Create2("/q", b"", acl, 0).serialize()


@pytest.mark.parametrize(
    ("request_", "body", "reply"),
    [
        (Create("/q"), as_sent("/q7") + kazoo.stat_struct.pack(*STAT), ("/q7", OURS)),
        (Children("/q"), kazoo.int_struct.pack(2) + as_sent("ü") + as_sent("b"), ("ü", "b")),
        (Children("/q"), kazoo.int_struct.pack(0), ()),
        (Get("/q"), kazoo.write_buffer(b"data") + kazoo.stat_struct.pack(*STAT), (b"data", OURS)),
        (Get("/q"), kazoo.write_buffer(None) + kazoo.stat_struct.pack(*STAT), (b"", OURS)),
        (Exists("/q"), kazoo.stat_struct.pack(*STAT), OURS),
        (SetData("/q", b""), kazoo.stat_struct.pack(*STAT), OURS),
        (Delete("/q"), b"", None),
        (Sync("/"), as_sent("/"), None),
    ],
)
def test_replies_are_read_behind_what_was_before(request_: Request[Any], body: bytes, reply: object) -> None:
    _, _, decode = encoded(request_, b"")
    found = decode(b"head" + body + b"the next", 4)
    if type(request_) is Children:  # a long one: kazoo's thread leaves it as it came
        assert isinstance(found, Unread)
        found = found.read()
    assert found == reply


def test_what_cannot_be_sent_is_said_before() -> None:
    with pytest.raises(TypeError, match="a path is text"):
        encoded(Exists(7), b"")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        encoded(Exists("/\ud800"), b"")
    with pytest.raises(AssertionError, match="Close"):
        encoded(Close(), b"")
