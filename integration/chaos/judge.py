"""What is wrong with the histories of a run; nothing, if every promise was kept."""

from __future__ import annotations

import json
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.chaos.further import MEETING, PARTIES, PERMITS, PERMITS_OF
from integration.chaos.history import Entry, Line, entries_of, read
from integration.chaos.lanes import MEMBER
from tests.histories.checks import Visit, faults
from tests.histories.linear import UNKNOWN, Model, Operation, Undecided, linearizable
from tests.histories.models import Counter, Guarded, Lock, ReadWriteLock, Register, Value

__all__ = ["Judged", "Stay", "judge", "stays_of", "unfair"]


@dataclass
class Stay:
    """A grant, from the acquire that returned it to the last moment when it was seen to be held (0: never).

    That is what ``said`` is; ``seen`` does not count what was said after the session was ended by force.
    It was held all the while, however long its process was stopped meanwhile: what is lost stays lost.
    """

    lock: str
    exclusive: bool
    token: int
    session: str
    asked: int
    granted: int
    seen: int = 0
    said: int = 0
    released: float = UNKNOWN
    downgraded: int | None = None
    downgrade_returned: float = UNKNOWN
    who: str = ""
    weight: int = 1

    @property
    def client(self) -> str:
        """Whose it is."""
        return self.who.partition(".")[0]

    def visit(self) -> Visit:
        """Return what the token checker looks at."""
        downgraded = None if self.downgraded is None else min(self.downgraded, self.seen)
        return Visit(self.exclusive, self.token, self.asked, self.granted, self.seen, downgraded, self.who)


@dataclass
class Judged:
    """What was found, and how much was looked at."""

    violations: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    open: int = 0


def judge(folder: Path, registers: dict[str, int], total: int, right_total: int) -> Judged:
    """Check the histories in ``folder`` against each other, and against what is in the files."""
    lines = list(read(folder))
    wrong = [f"{line['id']} raised {line['why']}" for line in lines if line["is"] == "wrong"]
    entries = entries_of(line for line in lines if line["is"] != "wrong")
    log = _faults(folder)
    stays = stays_of(entries, _expired(log))
    judged = Judged(wrong, open=sum(stay.released == UNKNOWN for stay in stays))
    judged.figures = dict(_figures(entries.values(), stays, registers))
    judged.violations += _dishonest(stays, log)
    judged.violations += unfair(stays)
    judged.violations += _not_linear(stays, judged.figures)
    judged.violations += _register(entries, registers, judged.figures)
    judged.violations += _observed(entries.values())
    judged.violations += _members(entries.values(), stays)
    judged.violations += _bank(entries.values(), total, right_total)
    judged.violations += _shared(entries.values(), stays, judged.figures)
    judged.violations += _crowded(stays)
    judged.violations += _alone(entries.values())
    return judged


def _faults(folder: Path) -> list[Line]:
    """Return what the storm noted."""
    log = folder / "faults.json.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _expired(log: list[Line]) -> dict[str, int]:
    """Return when sessions were ended by force: what follows is exempt (S2)."""
    return {line["session"]: line["at"] for line in log if line["fault"] == "session expired"}


def _dishonest(stays: list[Stay], log: list[Line]) -> Iterator[str]:
    """S4: whoever was stopped past its TTL does not hold what it held before."""
    stopped: dict[str, Line] = {}
    for line in log:
        if line["fault"] == "pause" and line["past"]:
            stopped[line["client"]] = line
        elif line["fault"] == "continue" and (pause := stopped.pop(line["client"], None)) is not None:
            for stay in stays:
                if stay.client == line["client"] and stay.granted < pause["at"] and line["at"] < stay.said:
                    yield f"S4: {stay.lock}: {stay.who} was stopped for {pause['seconds']:.1f} s, and held"


def stays_of(entries: dict[str, Entry], expired: dict[str, int]) -> list[Stay]:
    """Return the grants; ``expired`` says when sessions were ended by force."""
    stays: dict[str, Stay] = {}
    for entry in entries.values():
        if entry.what == "acquire" and entry.how == "ok":
            assert entry.returned is not None
            stays[entry.name] = Stay(
                entry.facts["lock"],
                entry.facts["mode"] == "exclusive",
                entry.answer["token"],
                entry.answer["session"],
                entry.called,
                entry.returned,
                who=entry.name,
                weight=entry.facts.get("weight", 1),
            )
        elif entry.what == "release":
            stay = stays[entry.facts["of"]]
            stay.seen = max(stay.seen, entry.facts["seen"])
            if entry.how == "ok" and entry.answer["was_held"]:
                assert entry.returned is not None
                stay.released = entry.returned
        elif entry.what == "downgrade" and entry.how != "fail":
            stay = stays[entry.facts["of"]]
            stay.downgraded = entry.called
            stay.downgrade_returned = UNKNOWN if entry.returned is None else entry.returned
    for stay in stays.values():
        stay.said = stay.seen
        stay.seen = min(stay.seen, expired.get(stay.session, stay.seen))
    return list(stays.values())


def _by_lock(stays: Iterable[Stay]) -> dict[str, list[Stay]]:
    """Return the grants of each lock; permits have no tokens, and do not exclude each other."""
    found: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays:
        if stay.lock != PERMITS:
            found[stay.lock].append(stay)
    return found


def unfair(stays: list[Stay]) -> Iterator[str]:
    """S2, S3 and S6, by the tokens."""
    for lock, those in _by_lock(stays).items():
        for fault in faults([stay.visit() for stay in those], fifo=False):
            yield f"{lock}: {fault}"


def _not_linear(stays: list[Stay], figures: dict[str, int]) -> Iterator[str]:
    """The same, by the search for an order."""
    for lock, those in _by_lock(stays).items():
        shared = lock == "bank"
        model = ReadWriteLock() if shared else Lock()
        operations = list(_operations(those, shared=shared))
        figures["operations"] += len(operations)
        try:
            if not linearizable(model, operations):
                yield f"{lock}: no order of its {len(operations)} operations is one of a lock"
        except Undecided as why:
            yield f"{lock}: not decided: {why}"


def _operations(stays: list[Stay], *, shared: bool) -> Iterator[Operation]:
    """Return the grants, downgrades and releases of one lock.

    The end of a grant that was lost, or whose client was killed, has no witness. It came at the
    latest before the next grant that it excludes was returned.
    """
    in_order = sorted(stays, key=lambda stay: stay.token)
    next_any = next_writer = UNKNOWN
    for stay in reversed(in_order):
        name = "acquire" if not shared else "write" if stay.exclusive else "read"
        yield Operation(name, stay.token, stay.asked, stay.granted)
        if stay.downgraded is not None:
            # Whoever is next may have been let in by the downgrade or by the end.
            certain = stay.downgrade_returned if stay.released != UNKNOWN else UNKNOWN
            yield Operation("downgrade", stay.token, stay.downgraded, certain)
        yield Operation("release", stay.token, max(stay.seen, stay.asked), _end(stay, next_any, next_writer))
        next_any = min(next_any, stay.granted)
        if stay.exclusive:
            next_writer = min(next_writer, stay.granted)


def _end(stay: Stay, next_any: float, next_writer: float) -> float:
    if stay.released != UNKNOWN:
        return stay.released
    bound = next_any if stay.exclusive and stay.downgraded is None else next_writer
    return max(bound, stay.seen, stay.asked)


def _register(entries: dict[str, Entry], registers: dict[str, int], figures: dict[str, int]) -> Iterator[str]:
    """S1: every acknowledged update is there, and all of them have an order."""
    operations = []
    acknowledged = unknown = 0
    began = {entry.facts["of"]: entry.called for entry in entries.values() if entry.what == "read"}
    for entry in entries.values():
        if entry.what == "write" and entry.facts["register"] == "fenced" and entry.how != "fail":
            known = entry.how == "ok"
            acknowledged += known
            unknown += not known
            step = (entry.facts["value"] - 1, entry.facts["value"])
            returned = entry.returned if known and entry.returned is not None else UNKNOWN
            operations.append(Operation("update", step, began[entry.facts["of"]], returned))
        elif entry.what == "read" and entry.how == "ok" and entry.returned is not None:
            value = entry.answer["result"]["fenced"]
            operations.append(Operation("read", value, entry.called, entry.returned))
    figures["operations"] += len(operations)
    if not acknowledged <= registers["fenced"] <= acknowledged + unknown:
        yield f"S1: {acknowledged} updates acknowledged, {unknown} unknown, {registers['fenced']} there"
    try:
        if not linearizable(Register(0), operations):
            yield f"S1: no order of the {len(operations)} updates and reads is one of a register"
    except Undecided as why:
        yield f"S1: not decided: {why}"


def _bank(entries: Iterable[Entry], total: int, right_total: int) -> Iterator[str]:
    """S6 with gates: nobody ever sees another sum."""
    if total != right_total:
        yield f"S1: the bank holds {total}, not {right_total}"
    for entry in entries:
        if entry.what == "sum" and entry.how == "ok" and entry.answer["total"] != right_total:
            yield f"S6: {entry.name} saw a sum of {entry.answer['total']}, not {right_total}"


def _observed(entries: Iterable[Entry]) -> Iterator[str]:
    """Terms rise for all that observe them: what a client sees goes from one leader to a later one."""
    seen: dict[str, int] = {}
    for entry in entries:
        if entry.what == "observe" and entry.how == "ok":
            before, token = seen.get(entry.who, 0), entry.answer["token"]
            if token < before:
                yield f"election: {entry.name} saw the leader {token} after {before}"
            seen[entry.who] = max(before, token)


def _members(entries: Iterable[Entry], stays: list[Stay]) -> Iterator[str]:
    """A list has an id once, those that were members all the while, and none that is yet to come."""
    by_id: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays:
        if stay.lock.startswith(MEMBER):
            by_id[stay.lock.removeprefix(MEMBER)].append(stay)
    came: dict[str, int] = {}
    for entry in entries:
        if entry.what == "acquire" and entry.facts["lock"].startswith(MEMBER):
            member_id = entry.facts["lock"].removeprefix(MEMBER)
            came[member_id] = min(came.get(member_id, entry.called), entry.called)
    for entry in entries:
        if entry.what != "members" or entry.how != "ok":
            continue
        ids, returned = entry.answer["ids"], entry.returned or 0
        if len({*ids}) < len(ids):
            yield f"group: {entry.name} was shown {ids}"
        for member_id, those in by_id.items():
            there = any(stay.granted <= entry.called and returned <= stay.seen for stay in those)
            if there and member_id not in ids:
                yield f"group: {entry.name} was shown {ids}, and {member_id!r} was a member all the while"
        yield from (
            f"group: {entry.name} was shown {one!r} before it came"
            for one in ids
            if came.get(one, UNKNOWN) > returned
        )


def _crowded(stays: Iterable[Stay]) -> Iterator[str]:
    """No more permits of the semaphore are held at a time than there are."""
    steps = []
    for stay in stays:
        if stay.lock == PERMITS and stay.granted < stay.seen:
            steps += [(stay.granted, stay.weight, stay.who), (stay.seen, -stay.weight, stay.who)]
    held = 0
    for _, weight, who in sorted(steps):
        held += weight
        if held > PERMITS_OF:
            yield f"{PERMITS}: with {who} {held} of {PERMITS_OF} are held"


def _alone(entries: Iterable[Entry]) -> Iterator[str]:
    """Nothing passes the barrier before as many wait there as pass together."""
    waits = [entry for entry in entries if entry.what == "meet"]
    for one in waits:
        if one.how != "ok" or one.returned is None:
            continue
        there = sum(
            other.called <= one.returned and (other.returned is None or one.called <= other.returned)
            for other in waits
        )
        if there < PARTIES or not 0 <= one.answer["index"] < PARTIES:
            yield f"{MEETING}: {one.name} passed as {one.answer['index']}, and {there} were there"


def _shared(entries: Iterable[Entry], stays: list[Stay], figures: dict[str, int]) -> Iterator[str]:
    """A write of a value or a counter is done once, or it cannot be known; what raised is never done."""
    by_name: dict[str, list[Operation]] = defaultdict(list)
    for entry in entries:
        if entry.what in ASKED and entry.how != "fail" and (entry.how == "ok" or entry.what != "get"):
            returned = UNKNOWN if entry.how != "ok" or entry.returned is None else entry.returned
            value = ASKED[entry.what](entry.facts, entry.answer.get("result"), known=entry.how == "ok")
            by_name[entry.facts["of"]].append(Operation(entry.what, value, entry.called, returned))
    for stay in stays:
        if stay.lock in by_name:
            by_name[stay.lock].append(Operation("grant", stay.token, stay.asked, stay.granted))
    for name, operations in by_name.items():
        kind = name.partition(" ")[0]
        figures["operations"] += len(operations)
        figures[f"operations: {kind}"] = figures.get(f"operations: {kind}", 0) + len(operations)
        try:
            fewer = () if kind in ("counter", "latch") else _fewer(operations)
            explained = any(_explains(SHARED[kind], some) for some in fewer)
            if not explained and not linearizable(SHARED[kind], operations):
                yield f"{name}: no order of its {len(operations)} operations is one of a {kind}"
        except Undecided as why:
            yield f"{name}: not decided: {why}"


def _fewer(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield the history without some of what may never have happened: if that has an order, it has one.

    First without the writes that nobody saw return and whose data nobody read, which are most of those.
    """
    read = {one.value[0] for one in operations if one.what == "get" and isinstance(one.value, tuple)}
    unread = {
        one
        for one in operations
        if one.returned == UNKNOWN and one.what in ("set", "set_if") and _data(one) not in read
    }
    without = [one for one in operations if one not in unread]
    yield [one for one in without if one.returned != UNKNOWN or one.what != "delete"]
    yield without


def _data(operation: Operation) -> Hashable:
    return operation.value[0] if isinstance(operation.value, tuple) else operation.value


def _explains(model: Model, operations: list[Operation]) -> bool:
    """Whether the model allows these, as far as the search comes."""
    try:
        return linearizable(model, operations)
    except Undecided:
        return False


def _got(facts: Line, result: Any, *, known: bool) -> Hashable:
    del facts
    assert known, "what a read found is known, or it is not looked at"
    return tuple(result) if isinstance(result, list) else result


def _set(facts: Line, result: Any, *, known: bool) -> Hashable:
    del result, known
    return (facts["data"], facts["token"]) if "token" in facts else facts["data"]


def _set_if(facts: Line, result: Any, *, known: bool) -> Hashable:
    new, old = ("new", "expected") if "new" in facts else ("data", "version")
    return facts[new], facts[old], result if known else True


def _deleted(facts: Line, result: Any, *, known: bool) -> Hashable:
    return facts["version"], result if known else True


def _added(facts: Line, result: Any, *, known: bool) -> Hashable:
    return facts["count"], result if known else None


ASKED: dict[str, Callable[..., Hashable]] = {
    "get": _got,
    "set": _set,
    "set_if": _set_if,
    "delete": _deleted,
    "add": _added,
}
SHARED: dict[str, Model] = {
    "value": Value(),
    "counter": Counter(),
    "guarded": Guarded(),
    "latch": Counter(),
}


def _figures(entries: Iterable[Entry], stays: list[Stay], registers: dict[str, int]) -> Count[str]:
    figures: Count[str] = Count(operations=0)
    figures["grants"] = len(stays)
    figures["shared grants"] = sum(not stay.exclusive for stay in stays)
    for entry in entries:
        figures[f"{entry.what}: {entry.how}"] += 1
        if entry.what == "write" and entry.how == "ok":
            figures[f"{entry.facts['register']}: acknowledged"] += 1
        if entry.what == "acquire" and entry.how == "fail":
            figures[f"not granted: {entry.facts['way']}: {entry.answer['why']}"] += 1
    for name, value in registers.items():
        figures[f"{name}: lost"] = max(0, figures[f"{name}: acknowledged"] - value)
    return figures
