from __future__ import annotations

from dataclasses import replace

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.wakeups import Changed, Disturbed, Gone, LocallyGone
from recipes._programs.local import Local
from tests.programs.stepping import place, spot
from tests.programs.test_keep import Mailbox

A = Contender("q/a", id="a")
B = Contender("q/b", id="b")
FOREIGN = Contender("q/foreign")


def test_who_does_not_stand_here_needs_a_watch() -> None:
    local = Local()
    assert not local.listen(A, Mailbox())
    assert not local.listen(FOREIGN, Mailbox())


def test_the_withdrawal_wakes_who_listened_with_their_reference() -> None:
    local, one, other = Local(), Mailbox(), Mailbox()
    local.stand("a")
    assert local.listen(A, one)
    assert local.listen(A, other)
    local.gone("a")
    assert one.events == other.events == [LocallyGone("q/a")]
    assert isinstance(one.events[0], Gone)
    assert one.events[0] != Gone("q/a"), "it is no word of the store"
    local.gone("a")
    assert len(one.events) == 1


def test_standing_twice_keeps_who_listens() -> None:
    local, mailbox = Local(), Mailbox()
    local.stand("a")
    local.listen(A, mailbox)
    local.stand("a")
    local.gone("a")
    assert mailbox.events == [LocallyGone("q/a")]


def test_stands() -> None:
    local = Local()
    assert not local.stands("a")
    local.stand("a")
    assert local.stands("a")
    local.gone("a")
    assert not local.stands("a")
    assert not local.listen(A, Mailbox()), "it is withdrawn: watch the store"


def test_forgotten_calls_are_told_nothing() -> None:
    local, mailbox, other = Local(), Mailbox(), Mailbox()
    local.stand("a")
    local.stand("b")
    local.listen(A, mailbox)
    local.listen(A, other)
    local.forget(mailbox, ["a", "b", "never"])
    local.gone("a")
    assert (mailbox.events, other.events) == ([], [LocallyGone("q/a")])


def test_gone_just_before_the_listener_wrote() -> None:
    """``listen`` finds the contender, and it goes before the mailbox is noted."""
    local, mailbox = Local(), Mailbox()

    class Slow(Mailbox):
        def __hash__(self) -> int:  # called as the mailbox is written down
            local.gone("a")
            return 1

    local.stand("a")
    assert not local.listen(A, Slow()), "in doubt the store is watched"
    assert not local.listen(A, mailbox)


def test_gone_just_after_the_listener_wrote() -> None:
    """The mailbox is noted, and the contender goes before ``listen`` looks again: told, and in doubt too."""
    local = Local()
    mailbox = Mailbox()
    local.stand("a")

    class Standing(dict):  # type: ignore[type-arg]
        def __contains__(self, key: object) -> bool:
            local.gone("a")
            return super().__contains__(key)

    local._standing = Standing(local._standing)
    assert not local.listen(A, mailbox)
    assert mailbox.events == [LocallyGone("q/a")]


MARKED = replace(A, mark=DOWNGRADED)


def test_a_downgrade_is_told_and_who_listens_hears_of_the_end_too() -> None:
    local, mailbox = Local(), Mailbox()
    local.stand("a")
    assert local.listen(A, mailbox)
    local.marked("a", DOWNGRADED)
    assert mailbox.events == [Changed("q/a")]
    local.gone("a")
    assert mailbox.events == [Changed("q/a"), LocallyGone("q/a")]


def test_who_saw_it_before_its_downgrade_asks_the_store() -> None:
    local = Local()
    local.stand("a")
    local.marked("a", DOWNGRADED)
    assert not local.listen(A, Mailbox())
    assert local.listen(MARKED, Mailbox()), "a writer waits for its end alone"


def test_downgraded_while_the_listener_wrote() -> None:
    """``listen`` finds the contender, and it downgrades before the mailbox is noted."""
    local = Local()

    class Slow(Mailbox):
        def __hash__(self) -> int:  # called as the mailbox is written down
            local.marked("a", DOWNGRADED)
            return 1

    local.stand("a")
    assert not local.listen(A, Slow()), "in doubt the store is asked"


def test_a_downgrade_that_is_answered_after_the_release_leaves_no_trace() -> None:
    local, mailbox = Local(), Mailbox()
    local.stand("a")
    local.gone("a")
    local.marked("a", DOWNGRADED)
    local.stand("a")
    assert local.listen(A, mailbox)
    assert local._marks == {}


def test_who_has_to_ask_the_store_is_not_told_here_as_well() -> None:
    local, mailbox = Local(), Mailbox()
    local.stand("a")
    local.marked("a", DOWNGRADED)
    assert not local.listen(A, mailbox)
    local.gone("a")
    assert mailbox.events == []


def test_what_waits_is_known_until_it_is_granted_given_up_or_withdrawn() -> None:
    local = Local()
    for number in (1, 2, 3):
        local.stand(spot(number).id)
        local.waits(place(number), Mailbox())
    assert local.waiting == (place(1), place(2), place(3))
    local.waits_no_more(spot(2).id)
    local.gone(spot(1).id)
    local.waits_no_more("never")
    assert local.waiting == (place(3),)


def test_a_waiter_that_a_renewal_missed_looks_and_is_missing_until_it_is_withdrawn() -> None:
    local, waiting, other = Local(), Mailbox(), Mailbox()
    for number, mailbox in ((1, waiting), (2, other)):
        local.stand(spot(number).id)
        local.waits(place(number), mailbox)
    assert not local.is_missing(spot(1).id)
    local.missed(spot(1).id)
    assert local.is_missing(spot(1).id)
    assert (waiting.events, other.events) == ([Disturbed()], [])
    local.gone(spot(1).id)
    assert not local.is_missing(spot(1).id)


def test_one_that_is_withdrawn_already_is_not_kept_as_missing() -> None:
    local = Local()
    local.missed("a")
    assert not local.is_missing("a")
