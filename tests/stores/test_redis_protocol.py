"""The protocol of Redis, stepped by hand: what it asks, and what it makes of each reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import (
    Check,
    Checked,
    Confirm,
    End,
    Enqueue,
    Entry,
    Evict,
    Guard,
    List,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Read,
    Renew,
    Rewrite,
    Settle,
    Stored,
    Ticket,
    Watch,
    Withdraw,
    Write,
)
from recipes._contract.rule import Nearest, Rule
from recipes._contract.wakeups import Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.permits import permits
from recipes._rules.readwrite import SHARED
from recipes.errors import SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores.redis.keys import Keys
from recipes.stores.redis.protocol import AT_ONCE, DEEPEST, LASTS, MOST_TOUCHED, RedisProtocol
from recipes.stores.redis.requests import Command, Listen, Run, Scan, Sure, Track
from tests.stores.stepping import AGAIN, CONTEXT, MAILBOX, feed

TICKET = Ticket("x", "lock", "a1", owner="me", data=b"d")
MINE = Entry(TICKET, "x/7", 7)
OTHER = [b"5", b"W", b"2e", b"b1", b"", 0]
AHEAD = Contender("x/5", "b1", "W", "2e")
STRANGER = Contender("x/-9")
ALONE = [b"7", 0, -1, []]
CUT = StoreUnavailable("redis://r", "cut")
REFUSED = StoreRefused("redis://r", "no")
DENIED = StoreDenied("redis://r", "NOPERM No permissions to access a key")
FULL = StoreFull("redis://r", "OOM command not allowed")
KEY = "~value/v"
INFO = b"# Server\r\nredis_version:7.0.15\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n"


def made(*, polls: bool = False, prefix: str = "lock:") -> RedisProtocol:
    return RedisProtocol("redis://r", Keys(prefix), "1f", 20, polls=polls)


@pytest.fixture
def redis() -> RedisProtocol:
    """One session of 15 s."""
    one = made()
    feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", INFO))
    return one


def arguments(run: Run) -> tuple[Any, ...]:
    """Return what an act is given, behind what every act is given."""
    assert run.words[1:5] == (run.words[1], "1f", "lock:~bell:", 15000)
    return run.words[5:]


def joined(redis: RedisProtocol, *rows: list[Any], ticket: Ticket = TICKET) -> None:
    """Have the session stand in the queue with the token 7."""
    reply = [b"7", len(rows), 15000 if rows else -1, list(rows)]
    feed(redis.enqueue(Enqueue(ticket, EXCLUSIVE), CONTEXT), reply, *([None] if rows else []))


def test_a_session_is_a_key_that_expires() -> None:
    asked = feed(made().open(Open(15), CONTEXT), (b"OK", 1, b"20", INFO))
    assert asked.result == Opened("1f", 15)
    first = Command(("SET", "lock:~session:1f", 1, "PX", 15000), "lock:~session:1f")
    assert isinstance(asked[0], Sure)
    assert asked[0].parts[0] == first


def test_clients_that_disagree_about_the_grace_are_refused() -> None:
    with pytest.raises(StoreRefused, match=r"restart_grace is 5 for the other clients and 20 for this one"):
        feed(made().open(Open(15), CONTEXT), (b"OK", 0, b"5", INFO))


def test_an_eviction_policy_that_drops_keys_is_noticed_once() -> None:
    one = made()
    for _ in range(2):
        feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", INFO.replace(b"noeviction", b"allkeys-lru")))
    (said,) = one.noticed()
    assert said.startswith("maxmemory-policy is allkeys-lru: a server that is short of memory drops locks")
    assert not list(one.noticed())


def test_a_server_that_may_drop_keys_proves_nothing() -> None:
    evicts = INFO.replace(b"noeviction", b"volatile-ttl")
    for promised in (STORES["redis"], replace(STORES["redis"], survives="a failover")):
        one = RedisProtocol("redis://r", Keys("lock:"), "1f", 20, polls=False, promised=promised)
        opened = feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", evicts)).result
        assert opened.guarantees == replace(promised, proven=False)


def test_a_server_before_6_is_noticed() -> None:
    one = made()
    feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", b"redis_version:5.0.14\r\n"))
    (said,) = one.noticed()
    assert said.startswith(
        "the server is Redis 5.0.14, which does not notify of keys that other programs write"
    )


def test_nothing_is_noticed_of_a_server_that_does_not_say_what_it_is() -> None:
    one = made()
    feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", b"redis_version:unstable\r\n# Memory"))
    assert not list(one.noticed())


def test_a_grace_that_was_deleted_in_between_refuses_nobody() -> None:
    asked = feed(made().open(Open(15), CONTEXT), (b"OK", 1, None, b""))
    assert asked.result == Opened("1f", 15)


def test_an_answer_that_a_part_of_opening_failed_is_raised() -> None:
    with pytest.raises(StoreUnavailable, match="cut"):
        feed(made().open(Open(15), CONTEXT), (CUT, 1, b"20", INFO))


def test_a_renewal_names_all_that_the_session_has_and_what_is_joining(redis: RedisProtocol) -> None:
    joined(redis)
    with pytest.raises(StoreUnavailable):
        feed(redis.enqueue(Enqueue(Ticket("y", "lock", "a2"), EXCLUSIVE), CONTEXT), CUT)
    gone = Entry(Ticket("y", "lock", "a0"), "y/3", 3)
    asked = feed(redis.renew(Renew((MINE,), 1.0, waiting=(gone,)), CONTEXT), (1, [1], [0, 0]))
    session, x, y = asked[0].parts
    assert session == Command(("PEXPIRE", "lock:~session:1f", 15000), "lock:~session:1f")
    assert (x.words[0], arguments(x)) == ("touch", ("7",))
    assert (y.words[0], arguments(y)) == ("touch", ("i:a2", "3"))
    assert asked.result.missing == (gone,), "it is not known yet whether the other has joined"


def test_a_renewal_of_many_names_so_many_at_a_time(redis: RedisProtocol) -> None:
    entries = tuple(Entry(Ticket("x", "R", f"r{n}"), f"x/{n}", n) for n in range(MOST_TOUCHED + 1))
    asked = feed(redis.renew(Renew(entries, 1.0), CONTEXT), (1, [1] * MOST_TOUCHED, [0]))
    assert [len(arguments(part)) for part in asked[0].parts[1:]] == [MOST_TOUCHED, 1]
    assert asked.result.missing == (entries[-1],)


def test_a_session_whose_key_is_gone_has_ended(redis: RedisProtocol) -> None:
    with pytest.raises(SessionLost):
        feed(redis.renew(Renew((), 1.0), CONTEXT), (0,))


class Busy(dict[str, Any]):
    """What another thread takes one from while it is read."""

    def items(self) -> Any:
        for at, item in enumerate(super().items()):
            if at == 1:
                del self[next(iter(self))]
            yield item


@pytest.mark.parametrize("op", ["renew", "end"])
def test_what_is_withdrawn_by_another_thread_meanwhile_fails_nothing(redis: RedisProtocol, op: str) -> None:
    for name in "xyz":
        joined(redis, ticket=Ticket(name, "lock", name))
    redis._stands = Busy(redis._stands)
    if op == "end":
        assert len(feed(redis.end(End(), CONTEXT), (1, 1, 1, 1))[0].parts) == 4
    else:
        assert len(feed(redis.renew(Renew((), 1.0), CONTEXT), (1, [1], [1], [1]))[0].parts) == 4


def test_a_contender_that_is_alone_needs_nothing_else(redis: RedisProtocol) -> None:
    asked = feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), ALONE)
    assert arguments(asked[0]) == ("a1", "W", "me", b"d", 0, 2, 1, "", "")
    assert asked[0].keys[0] == "lock:x"
    assert asked[0].keys[-1] == "{lock:x}:x:a1"
    assert asked.result.mine == MINE
    assert asked.result.due_s is None


def test_a_contender_that_waits_hears_of_its_grant_and_of_those_that_joining_watched(
    redis: RedisProtocol,
) -> None:
    asked = feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), [b"7", 1, 900, [OTHER]], None)
    assert asked[1] == Listen(("x/7",), MAILBOX)
    assert asked.result.ahead == (AHEAD,)
    assert asked.result.due_s == 0.9
    watched = feed(redis.watch(Watch(MINE, (AHEAD,)), CONTEXT), None)
    assert watched == [Listen(("x/5",), MAILBOX)]
    assert watched.result
    again = feed(redis.watch(Watch(MINE, (AHEAD,)), CONTEXT), [1, 0])
    assert arguments(again[0]) == (1, 7, 5, "*"), "a watch notifies once"
    assert not again.result


def test_of_many_ahead_none_is_watched_in_the_step_that_joins(redis: RedisProtocol) -> None:
    deep = DEEPEST + 1
    rule = Rule("X", Nearest(deep), depth=deep)
    asked = feed(redis.enqueue(Enqueue(TICKET, rule), CONTEXT), ALONE)
    assert arguments(asked[0])[5:7] == (deep + 1, 0)


def test_what_takes_permits_watches_the_one_ahead(redis: RedisProtocol) -> None:
    asked = feed(redis.enqueue(Enqueue(TICKET, permits(1, DEEPEST + 1)), CONTEXT), ALONE)
    assert arguments(asked[0])[5:7] == (DEEPEST + 2, 1)


def test_to_look_watches_also_what_joining_has_watched(redis: RedisProtocol) -> None:
    """Its one event may have come: the contender ahead was rewritten, and goes later."""
    joined(redis, OTHER)
    seen = [b"7", 2, 900, [OTHER, [b"3", b"W", b"2e", b"b0", b"", 0]]]
    first = feed(redis.look(Look(MINE, EXCLUSIVE, (AHEAD,)), CONTEXT), seen)
    assert arguments(first[0]) == (7, 0, 2, 5)
    assert first[0].refs == ("x/7", "x/5")
    second = feed(redis.look(Look(MINE, EXCLUSIVE, (AHEAD,)), CONTEXT), [b"", 0, -1, []])
    assert second.result.mine is None


def test_a_contender_of_the_same_session_is_not_watched_by_joining(redis: RedisProtocol) -> None:
    """The client itself notices that it goes; if it had gone before, only a look at the store shows it."""
    own = Contender("x/5", "a0", "W", "1f")
    joined(redis, [b"5", b"W", b"1f", b"a0", b"", 0])
    asked = feed(redis.watch(Watch(MINE, (own,)), CONTEXT), [1, 0])
    assert arguments(asked[0]) == (1, 7, 5, "*")
    assert not asked.result


def test_a_removal_that_is_asked_again_buries_again_what_was_joined_twice(redis: RedisProtocol) -> None:
    with pytest.raises(StoreUnavailable):
        feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), CUT)
    feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), AGAIN), ALONE)
    with pytest.raises(StoreUnavailable):
        feed(redis.withdraw(Withdraw(TICKET, MINE), CONTEXT), CUT)
    again = feed(redis.withdraw(Withdraw(TICKET, MINE), AGAIN), 0)
    assert arguments(again[0]) == ("a1", 7, 1)
    later = feed(redis.withdraw(Withdraw(TICKET, MINE), CONTEXT), 0)
    assert arguments(later[0]) == ("a1", 7, 0), "it was answered, and is forgotten"


def test_a_stranger_is_tracked_before_it_is_looked_at(redis: RedisProtocol) -> None:
    asked = feed(redis.watch(Watch(MINE, (STRANGER,)), CONTEXT), b"theirs", [1, 1])
    assert asked[0] == Track("lock:x", "x/-9", MAILBOX)
    assert arguments(asked[1]) == (1, 7, -9, "*")
    assert asked.result
    looked = feed(redis.look(Look(MINE, EXCLUSIVE, (STRANGER,)), CONTEXT), b"theirs", ALONE)
    assert arguments(looked[1]) == (7, 0, 2), "its token is nobody's in the queue"


@pytest.mark.parametrize(("left_ms", "says"), [(-1, [f"lock:x {LASTS}"]), (900, [])])
def test_a_stranger_that_never_expires_is_noticed_once(
    redis: RedisProtocol, left_ms: int, says: list[str]
) -> None:
    waits = [b"7", 1, left_ms, [[b"-9", b"W", b"", b"", b"", 0]]]
    feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), waits, None)
    assert list(redis.noticed()) == says
    feed(redis.look(Look(MINE, EXCLUSIVE, ()), CONTEXT), waits)
    feed(redis.listing(List("x", 9), CONTEXT), [[[*waits[3][0], b"", b""]], left_ms])
    assert list(redis.noticed()) == []


def test_a_listing_notices_a_stranger_that_never_expires(redis: RedisProtocol) -> None:
    row = [b"-9", b"W", b"", b"", b"", 0, b"", b""]
    feed(redis.listing(List("x", 9), CONTEXT), [[row], -1])
    assert list(redis.noticed()) == [f"lock:x {LASTS}"]
    feed(redis.listing(List("y", 9), CONTEXT), [[], -1])
    assert list(redis.noticed()) == []


def test_on_a_cluster_a_stranger_is_looked_for_by_time() -> None:
    redis = made(polls=True)
    row = [b"-9", b"W", b"", b"", b"", 0]
    asked = feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), [b"7", 1, -1, [row]], None)
    assert asked.result.due_s == 0.1
    late = feed(redis.look(Look(MINE, EXCLUSIVE, (STRANGER,)), CONTEXT), [b"7", 1, 50, [row]])
    assert late.result.due_s == 0.05
    assert len(late) == 1


@pytest.mark.parametrize(("evidence", "watch"), [(None, 1), (Gone("x/5"), 0)])
def test_a_check_arms_watches_unless_it_has_evidence(
    redis: RedisProtocol, evidence: Gone | None, watch: int
) -> None:
    minds = Entry(Ticket("x", "R", "r1", minds_marks=True), "x/7", 7)
    writer = Contender("x/5", "b1", "W", "2e", DOWNGRADED)
    asked = feed(redis.check(Check(minds, (writer,), evidence), CONTEXT), [1, 0])
    assert arguments(asked[0]) == (watch, 7, 5, DOWNGRADED)
    assert asked.result == Checked(True, frozenset())


def test_a_probe_joins_only_if_the_script_says_so(redis: RedisProtocol) -> None:
    asked = feed(redis.probe(Probe(TICKET, EXCLUSIVE), CONTEXT), [b"", 0, -1, []])
    assert arguments(asked[0])[6:] == (0, 1, "")
    assert asked.result is None
    renewed = feed(redis.renew(Renew((), 1.0), CONTEXT), (1,))
    assert len(renewed[0].parts) == 1, "nothing of it stands"


def test_a_probe_that_was_asked_before_may_land_yet(redis: RedisProtocol) -> None:
    asked = feed(redis.probe(Probe(TICKET, EXCLUSIVE), AGAIN), [b"", 0, -1, []])
    assert asked.result is not None
    assert asked.result.mine is None
    assert feed(redis.renew(Renew((), 1.0), CONTEXT), (1, [0]))[0].parts[1].words[-1] == "i:a1"


def test_a_reader_probes_by_the_mark_that_lets_it_in(redis: RedisProtocol) -> None:
    asked = feed(redis.probe(Probe(Ticket("x", "R", "r1"), SHARED), CONTEXT), ALONE)
    assert arguments(asked[0])[4:] == (1, 2, 0, 1, DOWNGRADED)


def test_where_the_script_cannot_judge_a_probe_joins(redis: RedisProtocol) -> None:
    rule = permits(2, 3)
    asked = feed(redis.probe(Probe(TICKET, rule), CONTEXT), ALONE)
    assert arguments(asked[0])[7:] == ("", "")


def test_what_was_withdrawn_does_not_come_to_stand(redis: RedisProtocol) -> None:
    with pytest.raises(SessionLost, match="withdrawn"):
        feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), [b"withdrawn"])


def test_while_a_server_starts_nothing_is_granted_and_nothing_was_done(redis: RedisProtocol) -> None:
    with pytest.raises(StoreUnavailable, match=r"grants nothing for 12\.3 s more") as caught:
        feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), [b"starting", 12300])
    assert caught.value.unsent


@pytest.mark.parametrize(
    "asked", [Check(MINE, (AHEAD,), Gone("x/5")), Check(MINE, (AHEAD,)), Watch(MINE, (AHEAD,))]
)
def test_while_a_server_starts_it_does_not_say_that_one_ahead_has_gone(
    redis: RedisProtocol, asked: Check | Watch
) -> None:
    """By that a waiter would be granted."""
    steps = redis.check if isinstance(asked, Check) else redis.watch
    with pytest.raises(StoreUnavailable, match=r"grants nothing for 12\.3 s more") as caught:
        feed(steps(asked, CONTEXT), [b"starting", 12300])  # type: ignore[arg-type]
    assert caught.value.unsent


@pytest.mark.parametrize(("entry", "again", "buries"), [(MINE, False, 0), (None, False, 1), (MINE, True, 1)])
def test_a_join_that_may_be_on_its_way_is_refused_from_its_withdrawal_on(
    redis: RedisProtocol, entry: Entry | None, again: bool, buries: int
) -> None:
    feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), AGAIN if again else CONTEXT), ALONE)
    asked = feed(redis.withdraw(Withdraw(TICKET, entry), CONTEXT), 1)
    assert arguments(asked[0]) == ("a1", 7 if entry else "", buries)
    assert asked.result
    assert len(feed(redis.renew(Renew((), 1.0), CONTEXT), (1,))[0].parts) == 1


@pytest.mark.parametrize("error", [REFUSED, DENIED, FULL])
@pytest.mark.parametrize("op", [Enqueue(TICKET, EXCLUSIVE), Probe(TICKET, EXCLUSIVE)])
def test_what_was_refused_is_not_renewed_and_its_withdrawal_ends(
    redis: RedisProtocol, op: Enqueue | Probe, error: Exception
) -> None:
    """Each renewal would be refused with it, and with that all that the session holds be lost."""
    held = Ticket("y", "lock", "a0")
    joined(redis, ticket=held)
    with pytest.raises(type(error)):
        feed(redis.start(op, CONTEXT), error)
    renewed = feed(redis.renew(Renew((Entry(held, "y/7", 7),), 1.0), CONTEXT), (1, [1]))
    assert [part.keys[0] for part in renewed[0].parts[1:]] == ["lock:y"]
    for answer in (error, 1):  # a script that was refused halfway may have left it
        asked = feed(redis.withdraw(Withdraw(TICKET), CONTEXT), answer)
        assert asked.result is (answer == 1)
        with pytest.raises(type(error)):
            feed(redis.start(op, CONTEXT), error)
    asked = feed(redis.withdraw(Withdraw(TICKET), CONTEXT), 0)
    assert arguments(asked[0]) == ("a1", "", 0), "where there is no room, no tombstone takes some"
    assert arguments(feed(redis.withdraw(Withdraw(TICKET), CONTEXT), 0)[0]) == ("a1", "", 1), "forgotten"


@pytest.mark.parametrize(("error", "named"), [(REFUSED, 0), (FULL, 1)])
def test_what_was_refused_when_it_was_asked_again_may_stand(
    redis: RedisProtocol, error: Exception, named: int
) -> None:
    """It is withdrawn until that is done; a server without room renews it as any other."""
    with pytest.raises(type(error)):
        feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), AGAIN), error)
    renewed = feed(redis.renew(Renew((), 1.0), CONTEXT), (1, *[[0]] * named))
    assert len(renewed[0].parts) == 1 + named
    with pytest.raises(type(error)):
        feed(redis.withdraw(Withdraw(TICKET), CONTEXT), error)
    assert arguments(feed(redis.withdraw(Withdraw(TICKET), AGAIN), 0)[0]) == ("a1", "", 1)


def test_a_renewal_counts_for_what_is_held_while_what_joins_is_refused(redis: RedisProtocol) -> None:
    held = Ticket("y", "lock", "a0")
    entry = Entry(held, "y/7", 7)
    joined(redis, ticket=held)
    joining = redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    next(joining)
    assert feed(redis.renew(Renew((entry,), 1.0), CONTEXT), (1, [1], DENIED)).result.missing == ()
    with pytest.raises(StoreUnavailable, match="a renewal was refused while it joined"):
        joining.send(ALONE)  # the session counts from a renewal that it did not get
    assert feed(redis.enqueue(Enqueue(TICKET, EXCLUSIVE), AGAIN), ALONE).result.mine == MINE
    with pytest.raises(StoreDenied):
        feed(redis.renew(Renew((entry, MINE), 1.0), CONTEXT), (1, [1], DENIED))


def test_what_a_renewal_has_spared_is_not_forgotten_by_one_without_an_answer(redis: RedisProtocol) -> None:
    joining = redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    next(joining)
    assert feed(redis.renew(Renew((), 1.0), CONTEXT), (1, DENIED)).result.missing == ()
    with pytest.raises(StoreUnavailable):
        feed(redis.renew(Renew((), 1.0), CONTEXT), (CUT, CUT))
    with pytest.raises(StoreUnavailable, match="a renewal was refused while it joined"):
        joining.send(ALONE)


def test_a_renewal_that_is_refused_to_what_has_joined_meanwhile_does_not_count(redis: RedisProtocol) -> None:
    joining = redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT)
    next(joining)
    renewing = redis.renew(Renew((), 1.0), CONTEXT)
    next(renewing)
    with pytest.raises(StopIteration):
        joining.send(ALONE)
    with pytest.raises(StoreDenied):
        renewing.send((1, DENIED))


def test_what_was_removed_by_an_earlier_try_counts(redis: RedisProtocol) -> None:
    assert feed(redis.withdraw(Withdraw(TICKET, MINE), AGAIN), 0).result
    assert not feed(redis.withdraw(Withdraw(TICKET, MINE), CONTEXT), 0).result
    evicted = feed(redis.evict(Evict("x", "x/5", 5), AGAIN), 0)
    assert arguments(evicted[0]) == (5,)
    assert evicted.result


def test_an_eviction_that_is_asked_again_is_the_same_one(redis: RedisProtocol) -> None:
    op, asked = Evict("x", "x/-9", -9), []
    for context, answer in ((CONTEXT, CUT), (AGAIN, CUT), (AGAIN, 0), (CONTEXT, 1)):
        steps = redis.evict(op, context)
        asked.append(next(steps).keys[-1])  # type: ignore[attr-defined]
        with pytest.raises(StoreUnavailable if answer is CUT else StopIteration):
            steps.throw(answer) if answer is CUT else steps.send(answer)
    assert asked == ["{lock:x}:x:1f-1"] * 3 + ["{lock:x}:x:1f-2"]


def test_a_contender_is_rewritten_in_place(redis: RedisProtocol) -> None:
    asked = feed(redis.rewrite(Rewrite(MINE, "m", b"n", 2), CONTEXT), 3)
    assert arguments(asked[0]) == (7, "m", b"n", 2)
    assert asked.result == 3
    assert arguments(feed(redis.rewrite(Rewrite(MINE, "m"), CONTEXT), None)[0]) == (7, "m", b"", "~3")


def test_a_rewrite_counts_those_before_so_that_none_of_them_lands_after_it(redis: RedisProtocol) -> None:
    first = feed(redis.rewrite(Rewrite(MINE, "m"), CONTEXT), -2, 3)
    assert [arguments(one)[3] for one in first] == ["~0", "~2"], "another of this session was quicker"
    assert first.result == 3
    assert arguments(feed(redis.rewrite(Rewrite(MINE, "n"), CONTEXT), 4)[0])[3] == "~3"


def test_a_queue_is_listed_with_all_that_is_known(redis: RedisProtocol) -> None:
    row = [b"5", b"W", b"2e", b"b1", b"m", 3, b"host", b"\xff"]
    asked = feed(redis.listing(List("x", 10, watch=True), CONTEXT), [[row], 900])
    assert asked[0].refs == ("x",)
    assert asked.result.contenders == (Contender("x/5", "b1", "W", "2e", "m", 5, "host", b"\xff", 3),)
    assert asked.result.due_s == 0.9
    assert feed(redis.listing(List("x", 10), CONTEXT), [[], -1])[0].refs == ()


def test_the_queues_are_found_by_their_keys(redis: RedisProtocol) -> None:
    keys = {"{lock:b}:queue", "{lock:a/c}:queue", "{lock:~election/e}:queue"}
    head = [[OTHER], 900]
    asked = feed(redis.queues(Queues(2), CONTEXT), keys, (head, head))
    assert asked[0] == Scan("{lock:*}:queue")
    assert [(one.words[:2], arguments(one)) for one in asked[1].parts] == [
        (("list", "a%2Fc"), (1, 0)),
        (("list", "b"), (1, 0)),
    ]
    assert asked.result == ("a%2Fc", "b")


def test_a_queue_in_which_only_the_dead_stand_is_not_found(redis: RedisProtocol) -> None:
    keys = {"{lock:a}:queue", "{lock:b}:queue"}
    assert feed(redis.queues(Queues(1), CONTEXT), keys, ([[], -1], [[OTHER], 900])).result == ("b",)
    assert feed(redis.queues(Queues(1), CONTEXT), keys, ([[], -1], [[], -1])).result == ()
    with pytest.raises(StoreUnavailable):
        feed(redis.queues(Queues(1), CONTEXT), keys, ([[], -1], CUT))


def test_of_many_queues_some_are_read_at_a_time_and_no_more_than_wanted(redis: RedisProtocol) -> None:
    keys = {f"{{lock:{number:03}}}:queue" for number in range(3 * AT_ONCE)}
    nobody, somebody = ([[], -1],) * AT_ONCE, ([[OTHER], 900],) * AT_ONCE
    asked = feed(redis.queues(Queues(2), CONTEXT), keys, nobody, somebody)
    assert [len(one.parts) for one in asked[1:]] == [AT_ONCE, AT_ONCE]
    assert asked.result == ("100", "101")


def test_a_value_is_read_and_watched(redis: RedisProtocol) -> None:
    asked = feed(redis.read(Read(KEY, watch=True), CONTEXT), [b"data", b"8"])
    assert asked[0].refs == (KEY,)
    assert asked[0].keys[-1] == "{lock:~value/v}:value"
    assert asked.result == Stored(b"data", 8)
    assert feed(redis.read(Read(KEY), CONTEXT), [None, b"0"]).result == Stored()


def test_a_write_carries_its_receipt_and_its_guards(redis: RedisProtocol) -> None:
    write = Write(KEY, b"new", 1, if_version=8, guards=(Guard(MINE), Guard(MINE, unchanged=True)))
    asked = feed(redis.write(write, CONTEXT), [1, b"9", b"1", b"new", b"9", 1])
    assert arguments(asked[0]) == (0, 8, 0, b"1", 0, b"new", 7, 0, 7, 1)
    assert asked[0].keys[-4:] == (
        "{lock:~value/v}:value",
        "{lock:~value/v}:receipt:1f",
        *["{lock:x}:known"] * 2,
    )
    assert asked.result.stored == Stored(b"new", 9)
    deleted = feed(redis.write(Write(KEY, None, 2), CONTEXT), [1, b"10", b"2", None, b"0", 1])
    assert arguments(deleted[0]) == (0, "", 9, b"2", 1, b"")


def test_a_write_that_was_given_up_is_settled(redis: RedisProtocol) -> None:
    write = Write(KEY, b"new", 1)
    with pytest.raises(StoreUnavailable):
        feed(redis.write(write, CONTEXT), CUT)
    asked = feed(redis.settle(Settle(write), CONTEXT), [1, b"9", b"", None, b"0", 1])
    assert arguments(asked[0])[0] == 1
    assert asked.result is False


def test_a_guarded_write_that_was_given_up_is_settled_without_its_guards(redis: RedisProtocol) -> None:
    """Else a server that has just started would not read the value for as long as it grants nothing."""
    write = Write(KEY, b"new", 1, guards=(Guard(MINE),))
    with pytest.raises(StoreUnavailable):
        feed(redis.write(write, CONTEXT), CUT)
    asked = feed(redis.settle(Settle(write), CONTEXT), [1, b"9", b"", None, b"0", 1])
    assert arguments(asked[0]) == (1, "", 0, b"", 0, b"new")
    assert len(asked[0].keys) == 7
    assert asked.result is False


@pytest.mark.parametrize("how", ["written", "settled"])
def test_a_write_whose_receipt_the_end_has_replaced_says_that_the_session_has_ended(
    redis: RedisProtocol, how: str
) -> None:
    write = Write(KEY, b"new", 1)
    late = redis.write(write, CONTEXT) if how == "written" else redis.settle(Settle(write), CONTEXT)
    with pytest.raises(SessionLost, match="ended"):
        feed(late, [b"ended"])


def test_a_cluster_refuses_a_guarded_write_across_slots() -> None:
    write = Write(KEY, b"new", 1, guards=(Guard(MINE),))
    with pytest.raises(StoreRefused, match="hash tag"):
        feed(made(polls=True).write(write, CONTEXT))
    together = made(polls=True, prefix="{app}:")
    assert feed(together.write(write, CONTEXT), [1, b"9", b"1", b"new", b"9", 1]).result.done


def test_the_end_removes_all_but_what_refuses_late_copies(redis: RedisProtocol) -> None:
    joined(redis)
    feed(redis.write(Write(KEY, b"new", 1), CONTEXT), [1, b"9", b"1", b"new", b"9", 1])
    with pytest.raises(StoreUnavailable):
        feed(redis.write(Write("~value/w", b"new", 2), CONTEXT), CUT)
    asked = feed(redis.end(End(), CONTEXT), (1, b"OK", b"OK", 1))
    removed, under_way, receipt, session = asked[0].parts
    assert isinstance(asked[0], Batch)
    assert arguments(removed) == ("a1", 7, 0)
    assert under_way.words == ("SET", "{lock:~value/w}:receipt:1f", "", "PX", 3_600_000)
    assert receipt.words == ("SET", "{lock:~value/v}:receipt:1f", "", "XX", "PX", 3_600_000)
    assert session.words == ("DEL", "lock:~session:1f")


@pytest.mark.parametrize("how", ["asked again", "settled"])
def test_the_end_refuses_late_copies_of_a_write_whose_answer_was_lost(redis: RedisProtocol, how: str) -> None:
    write = Write(KEY, b"new", 1)
    with pytest.raises(StoreUnavailable):
        feed(redis.write(write, CONTEXT), CUT)
    receipt, _ = feed(redis.end(End(), CONTEXT), (b"OK", 1))[0].parts
    assert "XX" not in receipt.words, "no copy may have been done: there may be no receipt yet"
    late = redis.write(write, AGAIN) if how == "asked again" else redis.settle(Settle(write), CONTEXT)
    feed(late, [1, b"9", b"1", b"new", b"9", 1])
    receipt, _ = feed(redis.end(End(), CONTEXT), (b"OK", 1))[0].parts
    assert receipt.words[:2] == ("SET", "{lock:~value/v}:receipt:1f")
    assert "XX" in receipt.words


@pytest.mark.parametrize("failed", [(CUT, 1), (1, CUT), (REFUSED, CUT)])
def test_an_end_that_is_not_answered_is_asked_again(redis: RedisProtocol, failed: tuple[Any, ...]) -> None:
    joined(redis)
    with pytest.raises(StoreUnavailable, match="cut"):
        feed(redis.end(End(), CONTEXT), failed)


def test_an_end_that_is_refused_says_so(redis: RedisProtocol) -> None:
    with pytest.raises(StoreRefused):
        feed(redis.end(End(), CONTEXT), (REFUSED,))


def test_of_very_many_values_the_end_knows_the_last(
    redis: RedisProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes.stores.receipts.MOST_KNOWN", 10)
    for number in range(30):
        write = Write(f"~value/{number}", b"new", number)
        feed(redis.write(write, CONTEXT), [1, b"9", b"%d" % number, b"new", b"9", 1])
    *receipts, _ = feed(redis.end(End(), CONTEXT), (1,) * 11)[0].parts
    assert [one.key for one in receipts] == [f"{{lock:~value/{n}}}:receipt:1f" for n in range(20, 30)]


def test_the_end_removes_what_a_withdrawal_that_is_on_its_way_may_leave(redis: RedisProtocol) -> None:
    joined(redis)
    leaving = redis.withdraw(Withdraw(TICKET, MINE), CONTEXT)
    assert arguments(next(leaving)) == ("a1", 7, 0)
    asked = feed(redis.end(End(), CONTEXT), (1, 1))
    assert arguments(asked[0].parts[0]) == ("a1", 7, 0)
    with pytest.raises(StopIteration):
        leaving.send(0)
    asked = feed(redis.end(End(), CONTEXT), (1,))
    assert len(asked[0].parts) == 1, "the session alone: what was removed is not removed again"


def test_what_is_about_to_join_as_the_session_ends_does_not_join(redis: RedisProtocol) -> None:
    """The end does not know of it: it would stand until its lease is over."""
    joining = [
        redis.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT),
        redis.probe(Probe(TICKET, SHARED), CONTEXT),
    ]
    feed(redis.end(End(), CONTEXT), (1,))
    for one in joining:
        with pytest.raises(SessionLost, match="ended"):
            next(one)


@pytest.mark.parametrize(("there", "replicas", "told"), [(2, 0, True), (2, 2, False), (0, 0, False)])
def test_a_server_with_more_replicas_than_have_to_acknowledge_is_told_of(
    there: int, replicas: int, told: bool
) -> None:
    one = RedisProtocol("redis://r", Keys("lock:"), "1f", 20, polls=False, replicas=replicas)
    feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", INFO + b"connected_slaves:%d\r\n" % there))
    notices = [said for said in one.noticed() if said.startswith("it has 2 replicas, and replicas= says 0")]
    assert bool(notices) is told


def test_a_grant_is_to_be_confirmed_where_replicas_acknowledge(redis: RedisProtocol) -> None:
    one = RedisProtocol("redis://r", Keys("lock:"), "1f", 20, polls=False, replicas=1)
    for protocol, wanted in ((redis, False), (one, True)):
        asked = feed(protocol.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), [b"7", 0, -1, []])
        assert asked.result.to_confirm is wanted


@pytest.mark.parametrize("stands", [0, 1])
def test_a_holder_is_answered_by_a_server_that_all_replicas_acknowledge(stands: int) -> None:
    """One that has been replaced, and does not know, may show what is gone."""
    one = RedisProtocol("redis://r", Keys("lock:"), "1f", 20, polls=False, replicas=1)
    feed(one.open(Open(15), CONTEXT), (b"OK", 1, b"20", INFO))
    entry = Entry(TICKET, f"{TICKET.queue}/7", 7)
    asked = feed(one.check(Check(entry), CONTEXT), ([stands],))
    (sure,) = asked
    assert isinstance(sure, Sure)
    (touch,) = sure.parts
    assert (touch.words[0], arguments(touch)) == ("touch", ("7",))
    assert asked.result == Checked(bool(stands), frozenset())
    with pytest.raises(StoreUnavailable):
        feed(one.check(Check(entry), CONTEXT), (StoreUnavailable("r", "0 of 1 replicas"),))


def test_a_grant_is_confirmed_by_what_a_server_sees_and_all_replicas_acknowledge(
    redis: RedisProtocol,
) -> None:
    entry, box = Entry(TICKET, f"{TICKET.queue}/7", 7), CONTEXT.mailbox
    blocker = [b"5", b"lock", b"2e", b"id-2", b"", 0]
    for rows in ([], [blocker]):
        asked = feed(redis.confirm(Confirm(entry, EXCLUSIVE), CONTEXT), (1, [b"7", len(rows), -1, rows], [1]))
        (sure,) = asked
        assert isinstance(sure, Sure)
        assert sure.grants, "of which there may be many"
        session, see, touch = sure.parts
        assert session == Command(("PEXPIRE", "lock:~session:1f", 15000), "lock:~session:1f")
        assert (touch.words[0], arguments(touch)) == ("touch", ("7",))
        assert (see.words[0], arguments(see), see.mailbox, see.refs) == ("see", (7, 0, 2), box, (entry.ref,))
        assert (asked.result.mine, len(asked.result.ahead)) == (entry, len(rows))
    none, free = [b"", 0, -1, []], [b"7", 0, -1, []]
    for reply, stands in ((none, 0), (free, 0)):  # not there at all, or its place in the queue is not
        asked = feed(redis.confirm(Confirm(entry, EXCLUSIVE), CONTEXT), (1, reply, [stands]))
        assert asked.result.mine is None
    with pytest.raises(SessionLost):
        feed(redis.confirm(Confirm(entry, EXCLUSIVE), CONTEXT), (0, none, [0]))
    lost, starts = StoreUnavailable("r", "0 of 1 replicas"), [b"starting", 4000]
    for first, said in ((lost, "0 of 1 replicas"), (starts, "grants nothing for 4.0 s more")):
        with pytest.raises(StoreUnavailable, match=said):
            feed(redis.confirm(Confirm(entry, EXCLUSIVE), CONTEXT), (1, first, [1]))
