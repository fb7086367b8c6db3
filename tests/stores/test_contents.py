from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes._contract.contents import Contents, pack, unpack

LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20)
DATA = st.binary(max_size=40) | st.sampled_from([b"", b"\n", b"\0", b"downgraded", b"downgraded\n", b"\xff"])


@given(LINE, LINE | st.just("downgraded{}"), DATA)
def test_what_is_packed_for_another_recipe_is_unpacked(mark: str, owner: str, data: bytes) -> None:
    assert unpack("~group/x", pack("~group/x", mark, owner, data)) == Contents(mark, owner, data)


@given(LINE, LINE | st.just("downgraded{}"))
def test_what_is_packed_for_a_lock_is_unpacked(mark: str, owner: str) -> None:
    assert unpack("x", pack("x", mark, owner, b"")) == Contents(mark, owner)


@given(DATA)
def test_an_elections_value_is_the_data_alone(data: bytes) -> None:
    assert pack("~election/x", "", "owner", data) == data
    assert unpack("~election/x", data) == Contents(data=data)


@pytest.mark.parametrize("queue", ["x", "~group/x", "~election/x"])
def test_where_nothing_is_said_nothing_is_stored(queue: str) -> None:
    assert pack(queue, "", "", b"") == b""
    assert unpack(queue, b"") == Contents()


@pytest.mark.parametrize(
    ("value", "mark", "owner"),
    [
        (b'{"owner":"me"}', "", '{"owner":"me"}'),
        (b"downgraded", "downgraded", ""),
        (b'downgraded{"owner":"me"}', "downgraded", '{"owner":"me"}'),
        (b"\xff", "", "\ufffd"),
    ],
)
def test_what_earlier_versions_stored_for_a_lock_is_read(value: bytes, mark: str, owner: str) -> None:
    assert unpack("x", value) == Contents(mark, owner)


@given(st.sampled_from(["x", "~group/x", "~election/x"]), DATA)
def test_whatever_anybody_wrote_is_read_as_something(queue: str, value: bytes) -> None:
    assert isinstance(unpack(queue, value), Contents)
