from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

import pytest

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import Entry, Ticket
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone, HandedOn, LocallyGone
from recipes._programs.waiters import InProcessWaiters
from tests.programs.stepping import entry, ticket
from tests.programs.test_keep import Mailbox
from tests.run.striking import StrikeAnywhere

A = Contender("q/a", id="a")
B = Contender("q/b", id="b")
FOREIGN = Contender("q/foreign")
HELD = Entry(Ticket("q", "W", "a"), "q/a", 5)


def test_who_does_not_stand_here_needs_a_watch() -> None:
    waiters = InProcessWaiters()
    assert not waiters.listen(A, Mailbox())
    assert not waiters.listen(FOREIGN, Mailbox())


def test_the_withdrawal_wakes_who_listened_with_their_reference() -> None:
    waiters, one, other = InProcessWaiters(), Mailbox(), Mailbox()
    waiters.stand("a")
    assert waiters.listen(A, one)
    assert waiters.listen(A, other)
    waiters.gone("a")
    assert one.events == other.events == [LocallyGone("q/a")]
    assert isinstance(one.events[0], Gone)
    assert one.events[0] != Gone("q/a"), "it is no word of the store"
    waiters.gone("a")
    assert len(one.events) == 1


def test_a_call_listens_only_if_it_is_told_of_all() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    assert not waiters.listens(mailbox, ()), "nobody tells it of nobody"
    waiters.stand("a")
    assert not waiters.listens(mailbox, (A,)), "it stands, and was not asked about"
    waiters.listen(A, mailbox)
    assert waiters.listens(mailbox, (A,))
    assert not waiters.listens(Mailbox(), (A,))
    assert not waiters.listens(mailbox, (A, FOREIGN))
    waiters.gone("a")
    assert not waiters.listens(mailbox, (A,))


def test_standing_twice_keeps_who_listens() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    waiters.stand("a")
    waiters.listen(A, mailbox)
    waiters.stand("a")
    waiters.gone("a")
    assert mailbox.events == [LocallyGone("q/a")]


def test_stands() -> None:
    waiters = InProcessWaiters()
    assert not waiters.stands("a")
    waiters.stand("a")
    assert waiters.stands("a")
    waiters.gone("a")
    assert not waiters.stands("a")
    assert not waiters.listen(A, Mailbox()), "it is withdrawn: watch the store"


def test_forgotten_calls_are_told_nothing() -> None:
    waiters, mailbox, other = InProcessWaiters(), Mailbox(), Mailbox()
    waiters.stand("a")
    waiters.stand("b")
    waiters.listen(A, mailbox)
    waiters.listen(A, other)
    waiters.forget(mailbox, ["a", "b", "never"])
    waiters.gone("a")
    assert (mailbox.events, other.events) == ([], [LocallyGone("q/a")])


def test_gone_just_before_the_listener_wrote() -> None:
    """``listen`` finds the contender, and it goes before the mailbox is noted."""
    waiters, mailbox = InProcessWaiters(), Mailbox()

    class Slow(Mailbox):
        def __hash__(self) -> int:  # called as the mailbox is written down
            waiters.gone("a")
            return 1

    waiters.stand("a")
    assert not waiters.listen(A, Slow()), "in doubt the store is watched"
    assert not waiters.listen(A, mailbox)


def test_gone_just_after_the_listener_wrote() -> None:
    """The mailbox is noted, and the contender goes before ``listen`` looks again: told, and in doubt too."""
    waiters = InProcessWaiters()
    mailbox = Mailbox()
    waiters.stand("a")

    class Listed(dict):  # type: ignore[type-arg]
        def __contains__(self, key: object) -> bool:
            waiters.gone("a")
            return super().__contains__(key)

    waiters._standing = Listed(waiters._standing)
    assert not waiters.listen(A, mailbox)
    assert mailbox.events == [LocallyGone("q/a")]


MARKED = replace(A, mark=DOWNGRADED)


def test_a_downgrade_is_told_and_who_listens_hears_of_the_end_too() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    waiters.stand("a")
    assert waiters.listen(A, mailbox)
    waiters.marked("a", DOWNGRADED)
    assert mailbox.events == [Changed("q/a")]
    waiters.gone("a")
    assert mailbox.events == [Changed("q/a"), LocallyGone("q/a")]


def test_who_saw_it_before_its_downgrade_asks_the_store() -> None:
    waiters = InProcessWaiters()
    waiters.stand("a")
    waiters.marked("a", DOWNGRADED)
    assert not waiters.listen(A, Mailbox())
    assert waiters.listen(MARKED, Mailbox()), "a writer waits for its end alone"


def test_downgraded_while_the_listener_wrote() -> None:
    """``listen`` finds the contender, and it downgrades before the mailbox is noted."""
    waiters = InProcessWaiters()

    class Slow(Mailbox):
        def __hash__(self) -> int:  # called as the mailbox is written down
            waiters.marked("a", DOWNGRADED)
            return 1

    waiters.stand("a")
    assert not waiters.listen(A, Slow()), "in doubt the store is asked"


def test_a_downgrade_that_is_answered_after_the_release_leaves_no_trace() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    waiters.stand("a")
    waiters.gone("a")
    waiters.marked("a", DOWNGRADED)
    waiters.stand("a")
    assert waiters.listen(A, mailbox)
    assert waiters._marks == {}


def test_who_has_to_ask_the_store_is_not_told_here_as_well() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    waiters.stand("a")
    waiters.marked("a", DOWNGRADED)
    assert not waiters.listen(A, mailbox)
    waiters.gone("a")
    assert mailbox.events == []


def test_what_waits_is_known_until_it_is_granted_given_up_or_withdrawn() -> None:
    waiters = InProcessWaiters()
    for number in (1, 2, 3):
        waiters.stand(ticket(number).id)
        waiters.waits(entry(number), Mailbox())
    assert waiters.waiting == (entry(1), entry(2), entry(3))
    waiters.waits_no_more(ticket(2).id)
    waiters.gone(ticket(1).id)
    waiters.waits_no_more("never")
    assert waiters.waiting == (entry(3),)


def test_a_waiter_that_a_renewal_missed_looks_and_is_missing_until_it_is_withdrawn() -> None:
    waiters, waiting, other = InProcessWaiters(), Mailbox(), Mailbox()
    for number, mailbox in ((1, waiting), (2, other)):
        waiters.stand(ticket(number).id)
        waiters.waits(entry(number), mailbox)
    assert not waiters.is_missing(ticket(1).id)
    waiters.missed(ticket(1).id)
    assert waiters.is_missing(ticket(1).id)
    assert (waiting.events, other.events) == ([Disturbed()], [])
    waiters.gone(ticket(1).id)
    assert not waiters.is_missing(ticket(1).id)


def test_one_that_is_withdrawn_already_is_not_kept_as_missing() -> None:
    waiters = InProcessWaiters()
    waiters.missed("a")
    assert not waiters.is_missing("a")


def test_a_release_wakes_who_listened_and_who_comes_to_listen() -> None:
    waiters, early, late = InProcessWaiters(), Mailbox(), Mailbox()
    waiters.stand("a")
    waiters.stand("b")
    assert waiters.listen(A, early)
    waiters.freed(HELD)
    assert waiters.listen(A, late)
    assert waiters.listen(B, late)
    assert early.events == late.events == [HandedOn("q/a")]
    waiters.gone("a")
    assert early.events == late.events == [HandedOn("q/a"), LocallyGone("q/a")]


def test_a_release_is_forgotten_with_the_contender() -> None:
    waiters, mailbox = InProcessWaiters(), Mailbox()
    waiters.stand("a")
    waiters.freed(HELD)
    waiters.gone("a")
    waiters.stand("a")
    assert waiters.listen(A, mailbox)
    waiters.gone("a")
    waiters.freed(HELD)  # another thread was quicker to withdraw it
    waiters.stand("a")
    assert waiters.listen(A, mailbox)
    assert mailbox.events == [LocallyGone("q/a")]


def test_a_withdrawal_that_is_interrupted_anywhere_is_told_and_leaves_no_trace() -> None:
    """What does not stand any more is withdrawn by nobody, so nobody would tell of it."""
    for at in itertools.count(1):
        waiters, one, other = InProcessWaiters(), Mailbox(), Mailbox()
        waiters.stand("a")
        waiters.waits(HELD, one)
        waiters.missed("a")
        waiters.marked("a", DOWNGRADED)
        waiters.freed(HELD)
        told = [Contender("q/a", id="a", mark=DOWNGRADED)]
        assert all(waiters.listen(told[0], mailbox) for mailbox in (one, other))
        strike = StrikeAnywhere(at)
        with contextlib.suppress(KeyboardInterrupt), strike:
            waiters.gone("a")
        if waiters.stands("a"):  # then the runtime has it withdrawn again
            waiters.gone("a")
        assert LocallyGone("q/a") in one.events, strike.where
        assert LocallyGone("q/a") in other.events, strike.where
        waiters.stand("a")
        assert waiters.standing(HELD) == Contender("q/a", id="a"), strike.where
        assert waiters.waiting == (), strike.where
        assert not waiters.is_missing("a"), strike.where
        if strike.left > 0:
            assert at > 8
            return


def test_an_interrupt_as_one_is_notified_of_a_withdrawal_keeps_it_from_nobody() -> None:
    class Struck(Mailbox):
        struck = False

        def post(self, event: Event) -> None:
            if not self.struck:
                self.struck = True
                raise KeyboardInterrupt
            super().post(event)

    waiters, one, other = InProcessWaiters(), Struck(), Mailbox()
    waiters.stand("a")
    assert waiters.listen(A, one)
    assert waiters.listen(A, other)
    with pytest.raises(KeyboardInterrupt):
        waiters.gone("a")
    assert one.events == other.events == [LocallyGone("q/a")]
    assert not waiters.stands("a")


def test_what_was_released_before_is_known_until_it_is_withdrawn() -> None:
    waiters = InProcessWaiters()
    waiters.stand("a")
    waiters.freed(HELD)
    behind, ahead, elsewhere = (Entry(Ticket(queue, "W", "b"), "q/b", at) for queue, at in QUEUED)
    assert waiters.freed_before(behind) == (A,)
    assert waiters.freed_before(ahead) == waiters.freed_before(elsewhere) == ()
    waiters.marked("a", DOWNGRADED)
    assert waiters.freed_before(behind) == (MARKED,)
    waiters.gone("a")
    assert waiters.freed_before(behind) == ()


QUEUED = (("q", 6), ("q", 4), ("p", 6))
