"""Names: any text, each a lock of its own, and nothing sent for what is no text."""

from __future__ import annotations

import unicodedata

import pytest

from integration.faults.labs import Lab, at_once

E_ACUTE = "caf\u00e9"
NAMES = [
    "a", "A", "a/", "/a", "a/b", "a//b", "ab", "a-", "a-b", "a.b", "a b", " a", "a ", "a%2Fb", "a%2fb", "a%",
    "/", "//", ".", "..", "./a", "../a", "%2E", "~", "~session", "~session/1", "~recipe/a",
    "_c_a-lock-0000000001",
    "\x00", "a\x00b", "\x01", "\x1f", "\x7f", "\u0080", "\ufff0", "\uffff", "\ue000", "\U0010ffff", "\n",
    unicodedata.normalize("NFC", E_ACUTE), unicodedata.normalize("NFD", E_ACUTE),
    "\u05e9\u05dc\u05d5\u05dd", "\u202eabc", "\u200f", "\u65e5\u672c", "\U0001f512",
    "R-1", "W-1", "lock", "x" * 1000, "x" * 999, "x" * 1024,
]  # fmt: skip
NO_NAMES = ["", "\ud800", "a\udfffb", "\ud83d", "x" * 1025, "/" * 342, "\u65e5" * 114]
PREFIXES = (("job", "job-"), ("job-1", "job-1/"), ("job-1/", "job-1/a"), ("job-1/a", "job-1/a%2F"))


@at_once()
def test_fault_35_every_name_is_a_lock_of_its_own(lab: Lab) -> None:
    assert len(set(NAMES)) == len(NAMES)
    one, other = (lab.actor(session_timeout=15, request_timeout=5) for _ in range(2))
    grants = {name: one.try_acquire(name) for name in NAMES}
    assert [name for name, held in grants.items() if held is None] == []  # none stands in another's way
    assert [name for name in NAMES if other.try_acquire(name) is not None] == []
    assert len(lab.contenders()) == len(NAMES)
    for count, name in enumerate(NAMES, 1):
        held = grants[name]
        assert held is not None
        assert held.grant.name == name
        assert held.verify()
        assert held.release()
        taken = other.try_acquire(name)
        assert taken is not None, f"{name!r} should be free"
        assert taken.release()
        if count % 10 == 0:
            assert len(lab.contenders()) == len(NAMES) - count


@at_once()
def test_fault_35_what_is_no_name_is_refused_before_anything_is_sent(lab: Lab) -> None:
    client = lab.actor(proxied=True, is_open=False)
    with lab.proxy.counting() as counts:
        for name in NO_NAMES:
            with pytest.raises(ValueError, match="name"):
                client.client.lock(name)
            with pytest.raises(TypeError):
                client.client.lock(name.encode("utf-8", "surrogatepass"))
    assert counts.connections == 0


@at_once(names=PREFIXES)
def test_fault_36_names_that_are_prefixes_of_each_other(lab: Lab, names: tuple[str, str]) -> None:
    short, long = names
    one, other = (lab.actor(session_timeout=15, request_timeout=5) for _ in range(2))
    for first, second in ((short, long), (long, short)):
        held = one.acquire(first)
        beside = other.acquire(second, timeout=5)  # waits for nobody
        waiting = other.start_acquire(first)
        assert lab.contenders_become(3)
        assert beside.release()
        assert not waiting.done()
        assert held.release()
        assert waiting.result(20).release()
