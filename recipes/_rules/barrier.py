"""What a barrier's record says, and what a party does by it and by those in its queue.

A barrier goes from generation to generation. Its record names the generation that gathers now, and what
became of earlier ones, with the ids of those that each of them was decided for::

    <parties> <generation>
    <generation> passed <id>,<id>,,<id>

So all of a generation are decided for in one write. It cannot be made of contenders alone: a party that was
paused, and finds that the others are gone, could not know whether they passed or gave up. An id that does
not stand any more is left out, and its place stays, for that is the index of arrival. An outcome that names
no contender in the queue is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from recipes._contract.contenders import Ahead, Contender
from recipes._contract.rule import Rule
from recipes._record import record

__all__ = [
    "GONE",
    "LEAVING",
    "PARTY",
    "PASSED",
    "TIMED_OUT",
    "Behind",
    "Decides",
    "GivenUp",
    "Missing",
    "Named",
    "Outcome",
    "Record",
    "Waits",
    "come",
    "decide",
    "give_up",
    "inside",
    "named",
    "pack",
    "standing",
    "unpack",
]

Contenders = tuple[Contender, ...]

PASSED = "passed"
TIMED_OUT = "timed-out"
GONE = "gone"
LEAVING = "leaving"
"""The mark of a party that entered, and waits until all others leave."""
LONGEST = 18
"""So many digits a generation has at most; Python refuses to read thousands of them."""


@record
class _Nobody:
    """The predicate of a contender that waits for no place in a queue."""

    def __call__(self, ahead: Ahead) -> Ahead:
        del ahead
        return ()


PARTY = Rule("B", _Nobody(), mode="shared")


@record
class Outcome:
    """What became of a generation.

    Attributes:
        generation: Which one.
        word: `PASSED`, or why it is broken: `TIMED_OUT` or `GONE`.
        ids: Those for which it was decided, in order of arrival; empty text for one that is gone since.
    """

    generation: int
    word: str
    ids: tuple[str, ...]


@record
class Record:
    """What a barrier's value says.

    Attributes:
        parties: How many pass together.
        generation: The one that gathers now.
        outcomes: Of earlier ones, as far as those that they name stand still.
    """

    parties: int
    generation: int
    outcomes: tuple[Outcome, ...] = ()


@record
class Named:
    """It was decided for this party."""

    outcome: Outcome
    index: int


@record
class Missing:
    """This party does not stand any more."""


@record
class Behind:
    """The party says that it is of another generation than the one that gathers."""


@record
class Decides:
    """The generation is decided, once this is written."""

    record: Record


@record
class Waits:
    """There is nothing to do but to wait; these are in the generation."""

    ids: frozenset[str]


@record
class GivenUp:
    """What a client gave up, and does not know to be gone.

    Attributes:
        ids: Of contenders, and of sessions.
        generations: Those that such contenders say they are of. One that does not stand may come to stand
            yet: the request that makes it can be late.
    """

    ids: frozenset[str] = frozenset()
    generations: frozenset[int] = frozenset()


def pack(record: Record) -> bytes:
    """Return what to write."""
    lines = [f"{record.parties} {record.generation}"]
    lines += [f"{one.generation} {one.word} {','.join(one.ids)}" for one in record.outcomes]
    return "\n".join(lines).encode()


def unpack(data: bytes) -> Record:
    """Return what was written.

    Raises:
        ValueError: That is no barrier's record.
    """
    first, *lines = data.decode().split("\n")
    parties, generation = map(int, first.split(" "))
    if parties < 1 or not 0 <= generation < 10**LONGEST:  # what no party could say that it is of
        raise ValueError(f"{parties} parties in generation {generation}")
    outcomes = (line.split(" ") for line in lines)
    return Record(
        parties,
        generation,
        tuple(Outcome(int(number), word, tuple(ids.split(","))) for number, word, ids in outcomes),
    )


def named(record: Record, party: str) -> Named | None:
    """Return what was decided for a party; None: nothing yet."""
    for outcome in record.outcomes:
        if party in outcome.ids:
            return Named(outcome, outcome.ids.index(party))
    return None


def come(record: Record | None, parties: int, contenders: Contenders, left: GivenUp) -> Record | None:
    """Return the record in which a party that comes may stand; None: others name another number of parties.

    Args:
        record: What is there.
        parties: How many pass together, as the party says.
        contenders: All that stand.
        left: What the party's client has given up. It could be counted beside what comes in its place, now
            or when it comes to stand: so it breaks the generation.
    """
    if record is None:
        return Record(parties, 1)
    if record.parties != parties:
        return None if contenders else Record(parties, record.generation + 1)
    # One of an earlier generation that was decided without it may be under way to this one.
    ours = [
        one.id for one in contenders if {one.id, one.session} & left.ids and named(record, one.id) is None
    ]
    if not ours and record.generation not in left.generations:
        return record
    return give_up(record, contenders, ours)


def give_up(record: Record, contenders: Contenders, ours: Iterable[str] = ()) -> Record:
    """Return the record once its generation is broken because a party has gone.

    Those of the client's own that are on their way to it are named too, which decides for them: the client's
    next call breaks no further generation.
    """
    standing = _standing(record, contenders)
    return _decided(record, GONE, (*standing, *(one for one in ours if one not in standing)), contenders)


def decide(
    record: Record, contenders: Contenders, me: str, seen: frozenset[str], *, over: bool
) -> Named | Missing | Behind | Decides | Waits:
    """Return what a party does.

    Args:
        record: Read before the contenders were listed. The other way round, what stands could be of a time
            before the record, and an outcome that it waits for be dropped.
        contenders: All that stand.
        me: The party's id.
        seen: Ids that it saw in this generation.
        over: Whether its time is over.
    """
    found = named(record, me)
    if found is not None:
        return found
    there = {one.id: one for one in contenders}
    if me not in there:
        return Missing()
    if _generation(there[me]) != record.generation:
        return Behind()
    ids = _standing(record, contenders)
    if len(ids) >= record.parties:
        return Decides(_decided(record, PASSED, ids[: record.parties], contenders))
    word = GONE if not seen <= there.keys() else TIMED_OUT if over else ""
    return Decides(_decided(record, word, ids, contenders)) if word else Waits(frozenset(ids))


def standing(contenders: Contenders, party: str) -> Contender | None:
    """Return a party's contender; None: it does not stand."""
    return next((one for one in contenders if one.id == party), None)


def inside(ids: Iterable[str], contenders: Contenders) -> int:
    """Return how many of those that entered together stand still, and do not leave."""
    entered = frozenset(ids)
    return sum(one.id in entered and one.mark != LEAVING for one in contenders)


def _generation(contender: Contender) -> int | None:
    """Return the generation in which a contender says that it is; None: it is no party."""
    said = contender.data
    if contender.kind != PARTY.kind or not said.isdigit() or len(said) > LONGEST:
        return None
    return int(said)


def _standing(record: Record, contenders: Contenders) -> tuple[str, ...]:
    """Return the ids of those that wait in the generation that gathers, in order of arrival."""
    decided = {party for outcome in record.outcomes for party in outcome.ids}
    return tuple(
        one.id for one in contenders if _generation(one) == record.generation and one.id not in decided
    )


def _decided(record: Record, word: str, ids: tuple[str, ...], contenders: Contenders) -> Record:
    there = {one.id for one in contenders}
    kept = [
        replace(one, ids=tuple(party if party in there else "" for party in one.ids))
        for one in record.outcomes
    ]
    outcomes = (*kept, Outcome(record.generation, word, ids))
    return Record(record.parties, record.generation + 1, tuple(one for one in outcomes if any(one.ids)))
