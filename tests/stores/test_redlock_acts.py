"""The acts of Redlock, stepped by hand: what they ask every server, and what they make of the votes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.operations import Open, Opened
from recipes.errors import StoreDenied, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.cell import Cell, Drop, Keep, Peek, Take
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.redis.keys import Keys
from recipes.stores.redlock.acts import Acts
from tests.simulation.majority import Server

MINE, THEIRS = "s/one", b"t/two"
KEYS = ("lock:~life", "lock:~redlock-grace", "lock:x", "{lock:x}:last")
TAKE, PEEK = Take("x", MINE, 4.0), Peek("x")
KEEP, DROP = Keep((("x", MINE),), 4.0), Drop((("x", MINE),))
NOW_MS = 10_000_000
SILENT = None
DOWN = StoreUnavailable("h", "refused")
YES, NO = [1], [0]
HELD = [[0, THEIRS, 900]]
STARTED = [[-1, 1500]]


def took(token: int) -> list[Any]:
    return [[1, b"%d" % token]]


def asked(acts: Acts, op: Any, *rounds: list[Any], early: bool = False) -> tuple[list[str], Any]:
    """Return the acts of the rounds that are asked, with these votes, and what comes of it."""
    names: list[str] = []
    waiting = list(rounds)
    asking = acts.of(Command(op, "s", NOBODY))
    round_ = next(asking)
    while True:
        names.append(str(round_.words[0]))
        votes = waiting.pop(0)
        assert round_.decided(votes) or None not in votes or not early
        try:
            round_ = asking.send(votes)
        except StopIteration as done:
            assert not waiting, f"{waiting} should have been asked for"
            return names, done.value


def made(grace_s: float = 20.0, servers: int = 5) -> Acts:
    return Acts("redlock://h", Keys("lock:"), grace_s, servers)


def test_a_majority_grants_and_the_largest_count_is_written_back_before_it_does() -> None:
    acts = made()
    votes = [took(7), HELD, took(9), SILENT, took(8)]
    asking = acts.of(Command(TAKE, "s", NOBODY))
    first = next(asking)
    assert (first.keys, first.words) == (KEYS, ("take", 20_000, 4000, 1, MINE))
    assert first.decided(votes)
    assert not first.decided([took(7), SILENT, took(9), SILENT, SILENT])
    second = asking.send(votes)
    assert second.words == ("note", 20_000, 4000, 9, MINE)
    with pytest.raises(StopIteration) as done:
        asking.send([YES, NO, YES, SILENT, YES])
    assert done.value.value == Cell(MINE, 9)
    held = [[MINE.encode(), 3000]]
    assert asked(acts, PEEK, [held, held, held, SILENT, SILENT]) == (["peek"], Cell(MINE, 9, 3.0))


def test_a_write_back_that_no_majority_has_is_no_grant() -> None:
    votes = [[took(7)] * 5, [YES, YES, NO, NO, NO], [YES, YES, NO, NO, NO]]
    with pytest.raises(StoreUnavailable, match="5 of 5 servers voted"):
        asked(made(), TAKE, *votes)


def test_what_a_minority_gave_is_dropped_again_everywhere() -> None:
    votes = [HELD, HELD, took(7), took(8), HELD], [NO, NO, YES, YES, NO]
    assert asked(made(), TAKE, *votes) == (["take", "drop"], Cell("t/two", 0, 0.9))


def test_a_drop_that_is_not_confirmed_leaves_the_take_in_doubt() -> None:
    with pytest.raises(StoreUnavailable) as raised:
        asked(made(), TAKE, [HELD, HELD, took(7), HELD, HELD], [NO, NO, DOWN, NO, NO])
    assert not raised.value.unsent


def test_servers_that_abstain_grant_nothing_and_say_for_how_long() -> None:
    votes = [STARTED, [[-1, 9000]], STARTED, took(7), took(8)], [NO, NO, NO, YES, YES]
    with pytest.raises(StoreUnavailable, match=r"3 of 5 servers started.* 1\.5 s more \(restart_grace\)"):
        asked(made(), TAKE, *votes)


def test_too_few_answers_say_nothing() -> None:
    silent = [DOWN, SILENT, DOWN, YES, YES]
    for op in (KEEP, DROP):
        with pytest.raises(StoreUnavailable, match="2 of 5 servers answered, and 3 have to; "):
            asked(made(), op, silent)
    with pytest.raises(StoreUnavailable, match="2 of 5 servers answered"):
        asked(made(), TAKE, [DOWN, SILENT, DOWN, took(1), took(2)], [DOWN, SILENT, DOWN, YES, YES])


def test_a_majority_that_denies_access_is_said() -> None:
    denied = StoreDenied("h", "NOAUTH")
    with pytest.raises(StoreDenied):
        asked(made(), Open(4.0), [denied, denied, denied, [b"20000"], [b"20000"]])


def test_who_denies_access_alone_says_nothing_of_the_silent_ones() -> None:
    """They may have done it, so it is dropped, and dropped again; a refusal would leave it."""
    denied = StoreDenied("h", "NOAUTH")
    for op in (KEEP, DROP):
        with pytest.raises(StoreUnavailable, match="1 of 5 servers answered"):
            asked(made(), op, [denied, denied, DOWN, SILENT, YES])


@pytest.mark.parametrize(
    ("votes", "kept"),
    [
        ([YES, YES, YES, SILENT, SILENT], True),
        ([YES, YES, YES, NO, NO], True),
        ([NO, NO, NO, SILENT, YES], False),
        ([NO, NO, YES, YES, NO], False),
        ([YES, YES, NO, NO, SILENT], None),
        ([YES, YES, NO, DOWN, DOWN], None),
    ],
)
def test_a_renewal_counts_by_a_majority_and_silence_is_no_loss(votes: list[Any], kept: bool | None) -> None:
    if kept is None:
        with pytest.raises(StoreUnavailable):
            asked(made(), KEEP, votes)
    else:
        assert asked(made(), KEEP, votes, early=True) == (["keep"], (kept,))


def test_a_renewal_never_sets_a_key_again() -> None:
    script = __import__("recipes.stores.redlock.session", fromlist=["SCRIPT"]).SCRIPT
    _, _, after = script.partition("elseif seen ~= value then")
    assert "'SET'" not in after


def test_a_release_counts_where_a_majority_can_hold_it_no_more() -> None:
    assert asked(made(), DROP, [YES, YES, YES, SILENT, SILENT], early=True) == (["drop"], (True,))
    assert asked(made(), DROP, [NO, NO, NO, YES, YES], early=True) == (["drop"], (False,))


def test_a_cell_is_free_where_no_majority_can_have_it() -> None:
    theirs, free = [[THEIRS, -1]], [[b"", -2]]
    assert asked(made(), PEEK, [theirs, free, free, SILENT, free]) == (["peek"], Cell())
    assert asked(made(), PEEK, [theirs, theirs, theirs, free, free]) == (["peek"], Cell("t/two"))


def opened(grace_ms: bytes = b"20000", policy: bytes = b"noeviction") -> list[bytes]:
    return [grace_ms, b"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:" + policy + b"\r\n"]


def test_all_clients_have_the_same_grace() -> None:
    assert asked(made(), Open(4.0), [opened()] * 3 + [SILENT] * 2) == (["open"], Opened("s", 4.0))
    with pytest.raises(StoreRefused, match=r"restart_grace is 5 for the other clients and 20 for this one"):
        asked(made(), Open(4.0), [opened()] * 2 + [opened(b"5000")] + [SILENT] * 2)


def test_nothing_is_proven_where_a_majority_may_evict() -> None:
    """Of any that answer one is among them."""
    unproven = Opened("s", 4.0, guarantees=replace(STORES["redlock"], proven=False))
    votes = [opened(), opened(policy=b"volatile-ttl"), opened(), SILENT, SILENT]
    assert asked(made(), Open(4.0), votes) == (["open"], unproven)


def carried_out(acts: Acts, op: Any, servers: list[Server]) -> Any:
    """Carry an act out on servers that answer at once; return what comes of it."""
    asking = acts.of(Command(op, "s", NOBODY))
    round_ = next(asking)
    while True:
        try:
            round_ = asking.send([server.answer(NOW_MS, round_.words) for server in servers])
        except StopIteration as done:
            return done.value


def test_what_undoes_a_take_and_is_late_leaves_a_later_take_of_the_same_contender() -> None:
    """A waiter looks again with the same value, on other connections than those of its last look."""
    servers, mine, theirs = [Server(0, 0) for _ in range(3)], made(servers=3), made(servers=3)
    other = Take("x", "t/two", 4.0)
    assert carried_out(theirs, other, servers).value == other.value
    asking = mine.of(Command(TAKE, "s", NOBODY))
    first = next(asking)
    late = asking.send([server.answer(NOW_MS, first.words) for server in servers])
    assert late.words[0] == "drop"
    assert late.decided([SILENT] * 3), "it is not waited for"
    assert carried_out(theirs, Drop((("x", other.value),)), servers) == (True,)
    assert carried_out(mine, TAKE, servers).value == MINE
    assert [server.answer(NOW_MS, late.words) for server in servers] == [NO, NO, NO]
    assert carried_out(theirs, other, servers).value == MINE
    assert carried_out(mine, DROP, servers) == (True,)


def test_a_take_that_is_late_changes_nothing_of_a_later_one() -> None:
    server, acts = Server(0, 0), made(servers=3)
    first, second = (next(acts.of(Command(TAKE, "s", NOBODY))) for _ in range(2))
    assert server.answer(NOW_MS, second.words)[0][0] == 1
    assert server.answer(NOW_MS, first.words)[0][0] == 0
    assert server.number == 2


def test_a_lost_majority_is_said_where_one_server_shows_a_holder() -> None:
    votes = [HELD, DOWN, DOWN, DOWN, DOWN], [NO, DOWN, DOWN, DOWN, DOWN]
    with pytest.raises(StoreUnavailable, match="1 of 5 servers answered"):
        asked(made(), TAKE, *votes)


def test_a_majority_says_which_grace_holds() -> None:
    ours, theirs = opened(), opened(b"5000")
    asked(made(), Open(4.0), [ours, ours, ours, theirs, theirs])
    with pytest.raises(StoreRefused, match="restart_grace is 5 for the other clients and 20 for this one"):
        asked(made(), Open(4.0), [ours, ours, theirs, theirs, theirs])


@pytest.mark.parametrize("kept", [True, False])
def test_a_take_that_a_renewal_overtook_is_renewed_before_it_counts(*, kept: bool) -> None:
    """The session counts from the renewal, which may have been denied where the take had not landed yet."""
    acts = made(servers=3)
    taking, keeping = (acts.of(Command(op, "s", NOBODY)) for op in (TAKE, KEEP))
    next(taking)
    next(keeping)
    with pytest.raises(StopIteration) as denied:
        keeping.send([NO, SILENT, NO])
    assert denied.value.value == (False,)
    assert taking.send([HELD, took(7), took(8)]).words[0] == "note"
    assert taking.send([NO, YES, YES]).words[0] == "keep"
    with pytest.raises(StopIteration if kept else StoreUnavailable) as done:
        taking.send([NO, YES, YES] if kept else [NO, YES, NO])
    assert not kept or done.value.value == Cell(MINE, 8)  # type: ignore[union-attr]


def test_a_take_that_a_renewal_overtook_and_another_has_is_not_renewed() -> None:
    acts = made(servers=3)
    taking, keeping = (acts.of(Command(op, "s", NOBODY)) for op in (TAKE, KEEP))
    next(taking)
    next(keeping)
    acts._tokens[THEIRS.decode()] = 5  # of another contender of this session
    assert taking.send([HELD, HELD, SILENT]).words[0] == "drop"
    with pytest.raises(StopIteration) as done:
        taking.send([NO, NO, SILENT])
    assert done.value.value == Cell(THEIRS.decode(), 5, 0.9)


def test_a_sign_of_life_needs_a_majority_and_no_claim() -> None:
    assert asked(made(), Keep((), 4.0), [[], [], [], SILENT, SILENT], early=True) == (["keep"], ())
    with pytest.raises(StoreUnavailable, match="2 of 5 servers answered"):
        asked(made(), Keep((), 4.0), [[], [], DOWN, DOWN, SILENT])


@pytest.mark.parametrize(
    ("votes", "says"),
    [
        ([SILENT, "theirs", "mine"], None),
        (["mine", SILENT, "theirs"], None),
        (["mine", "mine", SILENT], MINE),
        (["free", "mine", SILENT], None),
        (["free", "mine", "theirs"], ""),
        (["free", "free", SILENT], ""),
    ],
    ids=str,
)
def test_who_verifies_is_answered_by_a_majority_or_not_at_all(votes: list[Any], says: str | None) -> None:
    """Else a good grant was taken for lost, or a lost one for good."""
    seen = {"mine": [[MINE.encode(), 900]], "theirs": [[THEIRS, 900]], "free": [[b"", 0]], SILENT: SILENT}
    verify, answers = Peek("x", surely=True), [seen[vote] for vote in votes]
    if says is None:
        with pytest.raises(StoreUnavailable, match="2 of 3 servers answered, too few to say who holds"):
            asked(made(servers=3), verify, answers)
    else:
        assert asked(made(servers=3), verify, answers)[1].value == says
