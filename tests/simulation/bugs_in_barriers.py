"""Bugs to plant in barriers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract import operations as ops
from recipes._contract.operations import Program
from recipes._programs import barrier as programs
from recipes._rules import barrier as rules
from recipes._rules.barrier import Contenders, Decides, GivenUp, Named, Outcome, Record, Waits
from tests.simulation.bugs import swap

__all__ = ["BUGS"]

NOBODY: frozenset[str] = frozenset()


def one_less_is_enough() -> list[Any]:
    def decide(record: Record, *seen: Any, over: bool) -> Any:
        step = original(replace(record, parties=max(record.parties - 1, 1)), *seen, over=over)
        is_decided = isinstance(step, Decides)
        return Decides(replace(step.record, parties=record.parties)) if is_decided else step

    original = rules.decide
    return swap(rules, "decide", decide)


def given_up_ones_count() -> list[Any]:
    """A party that was interrupted and comes again is counted twice."""

    def come(record: Any, parties: int, contenders: Contenders, left: Any) -> Any:
        return original(record, parties, contenders, GivenUp())

    original = rules.come
    return swap(rules, "come", come)


def late_ones_of_its_own_count() -> list[Any]:
    """What was given up before it stood is taken for gone, and is counted when it arrives."""

    def come(record: Any, parties: int, contenders: Contenders, left: GivenUp) -> Any:
        return original(record, parties, contenders, GivenUp(left.ids))

    original = rules.come
    return swap(rules, "come", come)


def timeout_breaks_nothing() -> list[Any]:
    """One whose time is over leaves without a word, while others may decide that it passes."""

    def decide(*seen: Any, over: bool) -> Any:
        step = original(*seen, over=False)
        if not (over and isinstance(step, Waits)):
            return step
        record, _, me, _ = seen
        return Named(Outcome(record.generation, rules.TIMED_OUT, (me,)), 0)

    original = rules.decide
    return swap(rules, "decide", decide)


def written_whatever_is_there() -> list[Any]:
    def write(self: Any, record: Record, stored: Any) -> Program[bool]:
        del stored
        written = yield from ops.Write(self.queue, rules.pack(record), self.number())
        return written.done

    return swap(programs.Party, "write", write)


def lost_race_counts_as_won() -> list[Any]:
    def write(self: Any, record: Record, stored: Any) -> Program[bool]:
        yield from original(self, record, stored)
        return True

    original = programs.Party.write
    return swap(programs.Party, "write", write)


def listed_before_it_is_read() -> list[Any]:
    """What stands is of the look before, so that an outcome for one that has come since is dropped."""
    listed: dict[str, Contenders] = {}

    def decide(record: Record, contenders: Contenders, me: str, seen: Any, *, over: bool) -> Any:
        before, listed[me] = listed.get(me, contenders), contenders
        return original(record, before, me, seen, over=over)

    original = rules.decide
    return swap(rules, "decide", decide)


def gone_ones_are_not_missed() -> list[Any]:
    def decide(record: Record, contenders: Contenders, me: str, seen: Any, *, over: bool) -> Any:
        del seen
        return original(record, contenders, me, NOBODY, over=over)

    original = rules.decide
    return swap(rules, "decide", decide)


def outcomes_are_forgotten() -> list[Any]:
    """The record tells of the last generation alone."""

    def decided(record: Record, *what: Any) -> Record:
        return original(Record(record.parties, record.generation), *what)

    original = rules._decided
    return swap(rules, "_decided", decided)


def broken_for_nobody() -> list[Any]:
    def decided(record: Record, word: str, ids: Any, contenders: Contenders) -> Record:
        return original(record, word, ids if word == rules.PASSED else (), contenders)

    original = rules._decided
    return swap(rules, "_decided", decided)


def generations_are_not_told_apart() -> list[Any]:
    def standing(record: Record, contenders: Contenders) -> tuple[str, ...]:
        decided = {party for outcome in record.outcomes for party in outcome.ids}
        return tuple(one.id for one in contenders if one.id not in decided)

    return [*swap(rules, "_standing", standing), *given_up_ones_count()]


def lost_session_breaks_nothing() -> list[Any]:
    """One whose session is lost says that it is broken; its contender stands for a while, and counts."""

    def look_back(party: Any, me: str, lost: Any) -> Program[Any]:
        yield from ()
        raise party.broken(programs._why(lost))

    return swap(programs, "_look_back", look_back)


def comes_again_after_a_lost_session() -> list[Any]:
    """As a lock queues again: with a contender that is counted beside the former one."""

    def gather(party: Any, ticket: Any, *, stays: bool) -> Program[Any]:
        while True:
            try:
                return (yield from original(party, ticket, stays=stays))
            except rules_lost:
                yield from programs._come(party)
                data = b"%d" % party.generation
                ticket = ops.Ticket(party.queue, rules.PARTY.kind, party.new_id(), party.owner(), data)

    def look_back(party: Any, me: str, lost: Any) -> Program[Any]:
        yield from ()
        raise Again

    class Again(Exception):
        pass

    rules_lost = Again
    original = programs._gather
    return [*swap(programs, "_look_back", look_back), *swap(programs, "_gather", gather)]


def record_is_not_watched() -> list[Any]:
    return swap(programs, "Read", lambda queue, watch=False: ops.Read(queue))


def queue_is_not_watched() -> list[Any]:
    return swap(programs, "List", lambda queue, most, watch=False, **more: ops.List(queue, most, **more))


def nothing_is_withdrawn() -> list[Any]:
    def withdraw(ticket: Any, mine: Any) -> Program[None]:
        yield from ()

    return swap(programs, "_withdraw", withdraw)


def leaves_at_once() -> list[Any]:
    return swap(rules, "inside", lambda ids, contenders: 0)


def leaving_waits_for_all() -> list[Any]:
    """A crash inside holds it closed for ever, as the recipe of ZooKeeper's that counts to the end does."""

    def inside(ids: tuple[str, ...], contenders: Contenders) -> int:
        leave = {one.id for one in contenders if one.mark == rules.LEAVING}
        return len({*ids} - leave - {""})

    return swap(rules, "inside", inside)


def leaving_is_mixed_up() -> list[Any]:
    """It waits for all that are inside, of whichever generation."""

    def inside(ids: tuple[str, ...], contenders: Contenders) -> int:
        del ids
        return sum(one.mark != rules.LEAVING for one in contenders)

    return swap(rules, "inside", inside)


BUGS = {
    "one less than the parties is enough": one_less_is_enough,
    "those that were given up count": given_up_ones_count,
    "those that were given up count when they arrive": late_ones_of_its_own_count,
    "a timeout breaks nothing": timeout_breaks_nothing,
    "written whatever is there": written_whatever_is_there,
    "a race that was lost counts as won": lost_race_counts_as_won,
    "listed before the record is read": listed_before_it_is_read,
    "one that has gone is not missed": gone_ones_are_not_missed,
    "only the last outcome is kept": outcomes_are_forgotten,
    "broken for nobody": broken_for_nobody,
    "generations are not told apart": generations_are_not_told_apart,
    "a lost session breaks nothing": lost_session_breaks_nothing,
    "comes again after a lost session": comes_again_after_a_lost_session,
    "the record is not watched": record_is_not_watched,
    "the queue is not watched": queue_is_not_watched,
    "nothing is withdrawn": nothing_is_withdrawn,
    "leaves at once": leaves_at_once,
    "leaving waits for all": leaving_waits_for_all,
    "leaving is mixed up with other generations": leaving_is_mixed_up,
}
