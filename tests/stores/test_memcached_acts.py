"""The acts on Memcached, stepped by hand: what they send, and what they make of each answer."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract import operations as ops
from recipes._contract.names import encode
from recipes.errors import StoreFull, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.cell import Cell, Drop, Keep, Peek, Take
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.memcached.acts import AT_ONCE, BORN_S, FULL, ROOM, Acts, Answer, Life, read

MINE = "s/one"
LIFE = Life(7 * ROOM, 0.0)
LATER = Life(900 * ROOM, 0.0)
ADDED = Answer("STORED")
HELD = Answer("NOT_STORED")
NO_ROOM = Answer(FULL)
DONE = Answer("HD")
NONE = Answer("EN")
GONE = Answer("NF")
OTHER = Answer("EX")
THEIRS = Answer("VA", 9, "theirs")
ADD = b"add lock:x 0 6 5\r\ns/one\r\n"
LOOK = b"mg lock:x v c\r\n"


def renew(cas: int) -> bytes:
    return b"md lock:x C%d I T6\r\n" % cas


def delete(cas: int) -> bytes:
    return b"md lock:x C%d\r\n" % cas


def mine(cas: int) -> Answer:
    return Answer("VA", cas, MINE)


def made(grace_s: float = 0.0) -> Acts:
    return Acts("memcached://m", "lock:", grace_s)


def asked(acts: Acts, op: Any, *replies: Answer, life: Life = LIFE, now: float = 100.0) -> Any:
    """Return what is sent, with these answers, and what comes of it."""
    sent: list[bytes] = []
    waiting = list(replies)
    asking = acts.of(Command(op, "s", NOBODY), life, now)
    requests = next(asking)
    while True:
        sent += requests
        answers, waiting = waiting[: len(requests)], waiting[len(requests) :]
        assert len(answers) == len(requests), f"{requests} should have been expected"
        try:
            requests = asking.send(answers)
        except StopIteration as done:
            assert not waiting, f"{waiting} should have been asked for"
            return sent, done.value


def take(acts: Acts, *replies: Answer, life: Life = LIFE) -> Any:
    return asked(acts, Take("x", MINE, 4.0), *replies, life=life)


def keep(acts: Acts, *replies: Answer, life: Life = LIFE) -> Any:
    return asked(acts, Keep((("x", MINE),), 4.0), *replies, life=life)


def drop(acts: Acts, *replies: Answer) -> Any:
    return asked(acts, Drop((("x", MINE),)), *replies)


def peek(acts: Acts, reply: Answer, life: Life = LIFE) -> Any:
    return asked(acts, Peek("x"), reply, life=life)


def test_a_free_item_is_taken_renewed_and_dropped_in_one_trip_each() -> None:
    acts = made()
    assert take(acts, ADDED, mine(3)) == ([ADD, LOOK], Cell(MINE, 7 * ROOM + 3))
    assert keep(acts, DONE, mine(5)) == ([renew(3), LOOK], (True,))
    assert peek(acts, mine(5)) == ([LOOK], Cell(MINE, 7 * ROOM + 3)), "the token is that of the take"
    assert drop(acts, DONE) == ([delete(5)], (True,))


def test_an_item_of_another_is_shown_and_one_that_went_meanwhile_is_taken() -> None:
    acts = made()
    assert take(acts, HELD, THEIRS) == ([ADD, LOOK], Cell("theirs", 7 * ROOM + 9))
    assert take(acts, HELD, Answer("VA", 9)) == ([ADD, LOOK], Cell("?", 7 * ROOM + 9)), (
        "an empty value holds too"
    )
    assert take(acts, HELD, NONE, ADDED, mine(4)) == ([ADD, LOOK] * 2, Cell(MINE, 7 * ROOM + 4))


def test_an_item_that_another_program_deletes_as_it_is_taken_is_not_held() -> None:
    assert take(made(), ADDED, THEIRS) == ([ADD, LOOK], Cell("theirs", 7 * ROOM + 9))
    assert take(made(), ADDED, NONE, ADDED, mine(4)) == ([ADD, LOOK] * 2, Cell(MINE, 7 * ROOM + 4))


def test_an_own_item_is_found_again_and_its_lease_begins_anew() -> None:
    acts = made()
    again = take(acts, HELD, mine(3), DONE, mine(8))
    assert again == ([ADD, LOOK, renew(3), LOOK], Cell(MINE, 7 * ROOM + 8))
    lost = take(acts, HELD, mine(8), GONE, NONE, ADDED, mine(9))
    assert lost == ([ADD, LOOK, renew(8), LOOK, ADD, LOOK], Cell(MINE, 7 * ROOM + 9)), "a token of its own"
    assert take(acts, HELD, mine(9), OTHER, THEIRS)[1] == Cell("theirs", 7 * ROOM + 9)


def test_a_server_without_room_says_so_of_a_free_item_and_shows_one_that_is_held() -> None:
    with pytest.raises(StoreFull, match="out of memory"):
        take(made(), NO_ROOM, NONE)
    assert take(made(), NO_ROOM, THEIRS) == ([ADD, LOOK], Cell("theirs", 7 * ROOM + 9))
    again = take(made(), NO_ROOM, mine(3), DONE, mine(8))
    assert again == ([ADD, LOOK, renew(3), LOOK], Cell(MINE, 7 * ROOM + 8))


def test_nothing_that_is_sent_could_delete_what_it_has_no_room_for() -> None:
    acts = made()
    sent = [
        *take(acts, HELD, mine(3), DONE, mine(4))[0],
        *keep(acts, OTHER, mine(5), DONE, mine(6))[0],
        *drop(acts, OTHER, mine(7), DONE)[0],
    ]
    assert {request.split()[0] for request in sent} == {b"add", b"mg", b"md"}


def test_a_renewal_whose_answer_was_lost_is_found_by_the_value() -> None:
    acts = made()
    take(acts, ADDED, mine(3))
    assert keep(acts, OTHER, mine(5), DONE, mine(6)) == ([renew(3), LOOK, renew(5), LOOK], (True,))
    assert peek(acts, mine(6))[1].token == 7 * ROOM + 3
    assert drop(acts, OTHER, mine(7), DONE) == ([delete(6), LOOK, delete(7)], (True,))


def test_what_is_gone_or_anothers_is_not_kept_and_not_dropped() -> None:
    for wrote, found in ((GONE, NONE), (DONE, NONE), (DONE, THEIRS), (OTHER, THEIRS)):
        acts = made()
        take(acts, ADDED, mine(3))
        assert keep(acts, wrote, found) == ([renew(3), LOOK], (False,))
        assert drop(acts, found) == ([LOOK], (False,))


def test_several_are_kept_in_one_trip_and_none_is_a_sign_of_life() -> None:
    acts = made()
    take(acts, ADDED, mine(3))
    two = Keep((("y", "s/two"), ("x", MINE)), 4.0)
    kept = asked(acts, two, NONE, DONE, mine(4))
    assert kept == ([b"mg lock:y v c\r\n", renew(3), LOOK], (False, True))
    assert asked(acts, Keep((), 4.0), Answer("MN")) == ([b"mn\r\n"], ())


def test_of_very_many_so_many_are_kept_at_a_time() -> None:
    claims = tuple((f"x{number}", f"s/{number}") for number in range(AT_ONCE + 1))
    expected, replies = [], []
    for some in (claims[:AT_ONCE], claims[AT_ONCE:]):
        looks = [b"mg lock:%b v c\r\n" % cell.encode() for cell, _ in some]
        found = [Answer("VA", 3, value) for _, value in some]
        expected += [*looks, *(one for look in looks for one in (look.replace(b"mg", b"md"), look))]
        replies += [*found, *(one for last in found for one in (DONE, last))]
    sent, kept = asked(made(), Keep(claims, 4.0), *replies)
    assert [one.replace(b"C3 I T6", b"v c") for one in sent] == expected
    assert kept == (True,) * len(claims)


def test_a_count_of_a_former_life_is_not_used() -> None:
    acts = made()
    take(acts, ADDED, mine(3))
    assert peek(acts, mine(3), LATER)[1] == Cell(MINE, 0)
    assert peek(acts, Answer("VA", 3, "another/two"))[1] == Cell("another/two", 0), "it is renewed"
    assert keep(acts, NONE, life=LATER) == ([LOOK], (False,))


def test_a_take_whose_answer_was_lost_is_kept_and_gets_a_token_when_it_is_found() -> None:
    acts = made()
    assert keep(acts, mine(3), DONE, mine(5)) == ([LOOK, renew(3), LOOK], (True,))
    assert take(acts, HELD, mine(5), DONE, mine(6))[1] == Cell(MINE, 7 * ROOM + 6)


def test_a_free_item_is_shown_as_free_and_an_empty_one_as_held() -> None:
    assert peek(made(), NONE)[1] == Cell()
    assert peek(made(), Answer("VA", 2))[1] == Cell("?", 7 * ROOM + 2)


def test_tokens_rise_over_a_count_that_wraps_at_32_bits_and_into_the_next_life() -> None:
    born = Life.of("m", [facts(uptime=600_000, time=BORN_S + 700_000)], 0.0)
    again = Life.of("m", [facts(uptime=2, time=BORN_S + 700_001)], 0.0)
    found = [
        take(made(), ADDED, mine(cas), life=life)[1].token
        for life, cas in ((born, ROOM - 1), (born, ROOM), (born, 500 * ROOM), (again, 1))
    ]
    assert found == sorted(set(found))
    assert found[-1] < 2**63


def test_nothing_is_granted_until_the_server_was_up_for_the_grace() -> None:
    with pytest.raises(StoreUnavailable, match=r"grants nothing for 15\.0 s more") as caught:
        asked(made(20.0), Take("x", MINE, 4.0), now=5.0)
    assert caught.value.unsent
    assert asked(made(20.0), Take("x", MINE, 4.0), ADDED, mine(1), now=20.0)[1].token
    with pytest.raises(StoreUnavailable):  # two lives in one second would have the same tokens
        asked(made(0.0), Take("x", MINE, 4.0), now=1.9)
    assert asked(made(20.0), Peek("x"), NONE, now=5.0)[1] == Cell()


def test_what_the_server_is_shows_when_a_session_opens() -> None:
    op = ops.Open(4.0)
    assert asked(made(), op)[1] == ops.Opened("s", 4.0)
    opened = asked(made(), op, life=Life(0, 0.0, evicts=True))[1]
    assert STORES["memcached"].proven
    assert not opened.guarantees.proven
    with pytest.raises(StoreRefused, match="-C"):
        asked(made(), op, life=Life(0, 0.0, cas=False))
    with pytest.raises(AssertionError, match="should be an act"):
        asked(made(), ops.End())


def facts(**some: object) -> Answer:
    known = {"version": "1.6.18", "cas_enabled": "yes", "evictions": "off", **some}
    return Answer("STAT", facts=tuple((name, str(said)) for name, said in known.items()))


def test_a_life_is_read_from_what_the_server_says() -> None:
    said = facts(uptime=10, time=BORN_S + 15)
    assert Life.of("m", [said], 100.0) == Life(5 * ROOM, 93.0), "it may be up for three seconds less"
    assert Life.of("m", [facts(uptime=2, time=BORN_S + 15)], 100.0).since == 100.0
    more = Life.of("m", [said, facts(uptime=10, time=BORN_S + 15, cas_enabled="no", evictions="on")], 1.0)
    assert (more.cas, more.evicts) == (False, True)


@pytest.mark.parametrize("version", ["1.5.22", "1.6.9", "1.6.12", "1.6", "unknown"])
def test_a_server_without_the_meta_commands_of_today_is_refused(version: str) -> None:
    with pytest.raises(StoreRefused, match=rf"{version}, and locks need Memcached 1\.6\.13"):
        Life.of("m", [facts(version=version, uptime=10, time=BORN_S + 15)], 0.0)


@pytest.mark.parametrize("version", ["1.6.13", "1.6.13-rc1", "1.6.21_3_gabc", "1.7", "2.0.0"])
def test_a_newer_server_is_not_refused(version: str) -> None:
    assert Life.of("m", [facts(version=version, uptime=10, time=BORN_S + 15)], 0.0).cas


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"HD O7 c12\r\n", Answer("HD", 12)),  # also what was not asked for
        (b"HD c12\r\n", Answer("HD", 12)),
        (b"HD\r\n", Answer("HD")),
        (b"STORED\r\n", ADDED),
        (b"NOT_STORED\r\n", HELD),
        (b"SERVER_ERROR out of memory storing object\r\n", NO_ROOM),
        (b"MN\r\n", Answer("MN")),
        (b"VA 5 c9\r\ns\r\ne\xff\r\n", Answer("VA", 9, "s\r\ne\\xff")),
        (b"VA 5 c9 X W\r\ns/one\r\n", mine(9)),  # marked as stale
        (b"VA 0 c3\r\n\r\n", Answer("VA", 3)),
        (
            b"STAT version 1.6.18\r\nSTAT none \r\nSTAT a b c\r\nEND\r\n",
            Answer("STAT", facts=(("version", "1.6.18"), ("none", ""), ("a", "b c"))),
        ),
    ],
)
def test_an_answer_is_read_when_it_is_complete(data: bytes, answer: Answer) -> None:
    assert read(data + b"HD more", "m") == (answer, len(data))
    assert [read(data[:end], "m") for end in range(len(data))] == [None] * len(data)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"SERVER_ERROR out of memory writing get response\r\n", StoreUnavailable),
        (b"ERROR Too many open connections\r\n", StoreUnavailable),
        (b"CLIENT_ERROR bad command line format\r\n", StoreRefused),
        (b"ERROR\r\n", StoreRefused),
    ],
)
def test_an_error_is_raised(line: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(line, "m")


def test_a_key_is_the_name_where_no_other_name_is_that() -> None:
    acts = made()
    plain = ["reports/nightly", "a:b", "x{}y"]
    odd = ["%20", " ", "~x", "é", "a\nb", "x" * 246, "x" * 247, "/" * 200]
    keys = [acts.key(encode(name)).decode() for name in plain + odd]
    assert keys[:3] == [f"lock:{name}" for name in plain]
    assert keys[3:7] == ["lock:%2520", "lock:%20", "lock:%7Ex", "lock:%C3%A9"]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 250 and key.isascii() and " " not in key for key in keys)
    assert acts.key("~semaphore/x") == b"lock:~semaphore/x"
