"""Requests and replies on the wire, beside kazoo's own."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from recipes._contract.connection import Request
from recipes.stores.zookeeper.codec import Unread, acl_bytes, encoded
from recipes.stores.zookeeper.requests import (
    Check,
    Children,
    Close,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    MultiFailed,
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
        (SetData("/q", None), kazoo.SetData("/q", None, -1)),
        (Create("/q", None), kazoo.Create2("/q", None, OPEN_ACL_UNSAFE, 0)),
        (Delete("/q"), kazoo.Delete("/q", -1)),
        (Check("/q", 3), kazoo.CheckVersion("/q", 3)),
        (
            Multi((Create("/q", None), Check("/l"), SetData("/q", b"x", 2), Delete("/q/r", 1))),
            kazoo.Transaction(
                [
                    kazoo.Create("/q", None, OPEN_ACL_UNSAFE, 0),
                    kazoo.CheckVersion("/l", -1),
                    kazoo.SetData("/q", b"x", 2),
                    kazoo.Delete("/q/r", 1),
                ]
            ),
        ),
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
        (Get("/q"), kazoo.write_buffer(None) + kazoo.stat_struct.pack(*STAT), (None, OURS)),
        (Get("/q"), kazoo.write_buffer(b"") + kazoo.stat_struct.pack(*STAT), (b"", OURS)),
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


STAT_BYTES = kazoo.stat_struct.pack(*STAT)
PARTS = Multi((Create("/q"), SetData("/q", b""), Check("/q"), Delete("/q")))


def of_parts(*parts: tuple[int, int, bytes]) -> bytes:
    """Return the reply to a multi: kind, error and body of each part."""
    heads = (bytes(kazoo.MultiHeader(kind, False, error).serialize()) + body for kind, error, body in parts)
    return b"".join(heads) + bytes(kazoo.MultiHeader(-1, True, -1).serialize())


def test_the_reply_to_a_multi_has_one_for_each_part() -> None:
    _, _, decode = encoded(PARTS, b"")
    body = of_parts((1, 0, as_sent("/q7")), (5, 0, STAT_BYTES), (13, 0, b""), (2, 0, b""))
    assert decode(b"head" + body + b"the next", 4) == ("/q7", OURS, None, None)


@pytest.mark.parametrize(("codes", "part"), [((-110, -2, -2), 0), ((0, -103, -2), 1), ((0, 0, -101), 2)])
def test_of_a_multi_that_failed_it_is_known_which_part_did(codes: tuple[int, ...], part: int) -> None:
    """Those before it say 0, and those behind it -2."""
    _, _, decode = encoded(PARTS, b"")
    body = of_parts(*((-1, code, kazoo.int_struct.pack(code)) for code in codes))
    (failed,) = decode(b"head" + body, 4)
    assert isinstance(failed, MultiFailed)
    assert (failed.part, failed.code, failed.error.code) == (part, codes[part], codes[part])
    assert [type(one).__name__ for one in kazoo.Transaction.deserialize(body, 0)][part] == (
        {-110: "NodeExistsError", -103: "BadVersionError", -101: "NoNodeError"}[codes[part]]
    )


def test_what_cannot_be_sent_is_said_before() -> None:
    with pytest.raises(TypeError, match="a path is text"):
        encoded(Exists(7), b"")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        encoded(Exists("/\ud800"), b"")
    with pytest.raises(AssertionError, match="Close"):
        encoded(Close(), b"")
