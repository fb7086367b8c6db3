"""The protocol of ``layout="shedlock"``, statement by statement."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest
from click.testing import CliRunner

from recipes import TooWeak, connect, sql
from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Check,
    End,
    Enqueue,
    Entry,
    List,
    Open,
    Opened,
    Probe,
    Renew,
    Ticket,
    Withdraw,
)
from recipes._rules.exclusive import EXCLUSIVE
from recipes.cli.schema import store_command
from recipes.errors import StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores._kit.cell import Take
from recipes.stores.registry import from_url
from recipes.stores.sql import SqlBackend
from recipes.stores.sql.acts import Elsewhere, Starting
from recipes.stores.sql.protocol import SqlProtocol
from recipes.stores.sql.protocol_shedlock import TICK_US, ShedlockProtocol, ShedlockStatements, row_of
from recipes.stores.sql.requests import Ask, Transact, Work
from tests.stores.stepping import AGAIN, CONTEXT, feed
from tests.stores.test_sql_statements import text_of

STORES_OF = ("postgresql", "mysql")
PG_NOW = "date_trunc('milliseconds', timezone('utc', clock_timestamp()))"
MY_NOW = "UTC_TIMESTAMP(3)"
SAY = ShedlockStatements.of("recipes_", "postgresql")
TTL_S = 15.0
TTL_US = 15_000_000 + TICK_US
ID = "10000000-0000-4000-8000-000000000000"
VALUE, ROW, KEY = f"s/{ID}", "app:x/y", "app:~shedlock/x%2Fy"
TICKET = Ticket("x%2Fy", "lock", ID)
MINE = Entry(TICKET, "x%2Fy", 7)
CUT = StoreUnavailable("postgresql://h", "cut")
THEIRS, OURS, OVER = [("host-7", 2_000_000, 5)], [(VALUE, 9_000_000, 7)], [("host-7", 0, 5)]
HOLDER = Contender("x%2Fy", "", session="", token=0)


class Database:
    """Answers the statements of acts from a list, in order; the last answers to what was asked are kept.

    Attributes:
        asked: What was asked, by the names of the statements' makers.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        names = ("take", "add", "keep", "drop", "seen", "life", "draw", "drawn")
        self._names = {id(getattr(SAY, f"_{name}")): name for name in names}

    def run(self, transact: Transact, replies: Iterator[Any], until_us: int = 0) -> Any:
        """Carry out an act."""
        steps = transact.act(Work(starting_until_us=until_us, grace_us=1000))
        try:
            asks = next(steps)
            while True:
                asks = steps.send([self._reply(ask, replies) for ask in asks])
        except StopIteration as done:
            return done.value

    def _reply(self, ask: Ask, replies: Iterator[Any]) -> Any:
        name, values = self._names[id(ask.statement)], ask.values
        self.asked.append(name)
        row, key = values.get("row_", ROW), values.get("queue_", KEY)
        assert (row, key) == (ROW, KEY)
        assert values.get("value_", VALUE) == VALUE
        assert values.get("ttl_us_", TTL_US) == TTL_US
        return next(replies)


def asked(steps: Any, *replies: Any, until_us: int = 0) -> tuple[list[str], Any]:
    """Carry out an operation; return the statements, and what it came to."""
    database, left = Database(), iter(replies)
    reply: Any = None
    try:
        request = steps.send(None)
        while True:
            reply = database.run(request, left, until_us)
            request = steps.send(reply)
    except StopIteration as done:
        assert next(left, None) is None, "a reply nobody asked for"
        return database.asked, done.value


@pytest.fixture
def shed() -> ShedlockProtocol:
    made = ShedlockProtocol(SAY, "app", "s", lambda: 0.0)
    assert asked(made.open(Open(TTL_S), CONTEXT), []) == (["life"], Opened("s", TTL_S))
    return made


def taken(shed: ShedlockProtocol, *replies: Any, context: Any = CONTEXT, until_us: int = 0) -> Any:
    return asked(shed.enqueue(Enqueue(TICKET, EXCLUSIVE), context), *replies, until_us=until_us)


def test_a_free_row_is_taken_and_then_a_token_is_drawn(shed: ShedlockProtocol) -> None:
    statements, snapshot = taken(shed, 1, 1, [(7, "here")])
    assert statements == ["take", "draw", "drawn"]
    assert (snapshot.mine, snapshot.ahead) == (MINE, ())


def test_a_row_that_is_not_there_is_made_free_first(shed: ShedlockProtocol) -> None:
    statements, snapshot = taken(shed, 0, [], 1, 1, 1, [(7, "here")])
    assert statements == ["take", "seen", "add", "take", "draw", "drawn"]
    assert snapshot.mine == MINE


def test_what_a_java_service_has_is_waited_for_and_nothing_is_written(shed: ShedlockProtocol) -> None:
    statements, snapshot = taken(shed, 0, THEIRS)
    assert statements == ["take", "seen"]
    assert snapshot.ahead == (HOLDER,)
    assert 0 < snapshot.due_s <= 0.2
    assert asked(shed.probe(Probe(TICKET, EXCLUSIVE), CONTEXT), 0, THEIRS)[1] is None


def test_a_row_that_becomes_free_as_it_is_read_is_taken_at_once(shed: ShedlockProtocol) -> None:
    statements, snapshot = taken(shed, 0, OVER, 1, 1, [(7, "here")])
    assert statements == ["take", "seen", "take", "draw", "drawn"]
    assert snapshot.mine == MINE


def test_it_looks_when_the_lock_of_another_ends(shed: ShedlockProtocol) -> None:
    assert taken(shed, 0, [("host-7", 3_000, 5)])[1].due_s == 0.003


def test_a_take_whose_answer_was_lost_is_done_again(shed: ShedlockProtocol) -> None:
    with pytest.raises(StoreUnavailable):
        feed(shed.enqueue(Enqueue(TICKET, EXCLUSIVE), CONTEXT), CUT)
    assert taken(shed, 1, 1, [(7, "here")], context=AGAIN)[1].mine == MINE
    assert asked(shed.renew(Renew((MINE,), 5.0), CONTEXT), 1)[1].missing == ()


def test_a_copy_that_lands_between_is_ones_own(shed: ShedlockProtocol) -> None:
    assert taken(shed, 0, OURS, context=AGAIN)[1].mine == MINE


def test_a_renewal_extends_and_names_what_is_gone(shed: ShedlockProtocol) -> None:
    taken(shed, 1, 1, [(7, "here")])
    for changed, missing in ((1, ()), (0, (MINE,))):
        statements, renewal = asked(shed.renew(Renew((MINE,), 5.0), CONTEXT), changed)
        assert (statements, renewal.ttl_s, renewal.missing) == (["keep"], TTL_S, missing)


def test_a_renewal_without_a_lock_is_answered_too(shed: ShedlockProtocol) -> None:
    assert asked(shed.renew(Renew((), 5.0), CONTEXT), [])[0] == ["life"]


@pytest.mark.parametrize("changed", [0, 1])
def test_a_release_unlocks_the_own_row_only(shed: ShedlockProtocol, changed: int) -> None:
    taken(shed, 1, 1, [(7, "here")])
    statements, dropped = asked(shed.withdraw(Withdraw(TICKET, MINE), CONTEXT), changed)
    assert (statements, dropped) == (["drop"], bool(changed))
    assert asked(shed.end(End(), CONTEXT))[0] == []


def test_several_are_renewed_in_the_order_of_their_rows(shed: ShedlockProtocol) -> None:
    steps = shed._each(Work(), [("z", "1"), ("a", "2")], partial(SAY.keep, ttl_us=1))
    asks = next(steps)
    assert [ask.values["row_"] for ask in asks] == ["app:a", "app:z"]
    with pytest.raises(StopIteration) as done:
        steps.send([1, 0])
    assert done.value.value == (False, True)


def test_check_and_listing_read_one_row(shed: ShedlockProtocol) -> None:
    taken(shed, 1, 1, [(7, "here")])
    statements, checked = asked(shed.check(Check(MINE, (), None), CONTEXT), OURS)
    assert (statements, checked.mine) == (["seen"], True)
    (holder,) = asked(shed.listing(List("x%2Fy", 5), CONTEXT), OURS)[1].contenders
    assert (holder.session, holder.id, holder.token) == ("s", ID, 7)
    for row in ([], OVER):
        assert asked(shed.listing(List("x%2Fy", 5), CONTEXT), row)[1].contenders == ()
    assert asked(shed.listing(List("x%2Fy", 5), CONTEXT), [("", 5, 0)])[1].contenders == (HOLDER,)


def test_nothing_is_granted_while_a_standby_takes_over(shed: ShedlockProtocol) -> None:
    with pytest.raises(Starting) as starting:
        taken(shed, [("life", 1, 2, 600, "here")], until_us=1000)
    assert starting.value.left_us == 400
    statements, snapshot = taken(shed, [("life", 1, 2, 1000, "here")], 1, 1, [(7, "here")], until_us=1000)
    assert (statements, snapshot.mine) == (["life", "take", "draw", "drawn"], MINE)


def test_nothing_is_granted_by_what_was_known_of_another_server(shed: ShedlockProtocol) -> None:
    """A proxy has led the connection to one that took over, or the clock was set back."""
    take = Take(ROW.partition(":")[2].replace("/", "%2F"), VALUE, TTL_S)
    steps = shed._taking(Work(server="there"), take)
    with pytest.raises(Elsewhere):
        feed(steps, [1], [1, [(7, "here")]])
    with pytest.raises(Elsewhere):
        feed(shed._taking(Work(2001, grace_us=1000), take), [[("life", 1, 2, 1000, "here")]])


def test_only_acts_are_carried_out(shed: ShedlockProtocol) -> None:
    with pytest.raises(AssertionError, match="should be an act"):
        feed(shed.act(End(), CONTEXT))


def test_the_statements_are_those_that_shedlock_documents() -> None:
    say = ShedlockStatements.of("recipes_", "postgresql")
    owned = "shedlock.name = :row_ AND shedlock.locked_by = :value_"
    mine = f"WHERE {owned} AND shedlock.lock_until > {PG_NOW}"
    assert text_of(say.drop("x", "v").statement, "postgresql") == (
        f"UPDATE shedlock SET lock_until={PG_NOW} {mine}"
    )
    assert text_of(say.keep("x", "v", 1).statement, "postgresql") == (
        f"UPDATE shedlock SET lock_until=({PG_NOW} + :ttl_us_ * INTERVAL '1 microsecond') {mine}"
    )
    say = ShedlockStatements.of("recipes_", "mysql")
    assert text_of(say.take("x", "v", 1).statement, "mysql") == (
        f"UPDATE shedlock SET lock_until=TIMESTAMPADD(MICROSECOND, :ttl_us_, {MY_NOW}), locked_at={MY_NOW},"
        f" locked_by=:value_ WHERE shedlock.name = :row_ AND (shedlock.lock_until <= {MY_NOW}"
        " OR shedlock.locked_by = :value_)"
    )


@pytest.mark.parametrize("dialect", STORES_OF)
def test_the_schema_has_the_tables_that_are_needed(dialect: str) -> None:
    made = sql.schema(dialect, "mine_", layout="shedlock")
    names = [one.split()[5] for one in made]
    assert names == ["mine_queue", "shedlock", "mine_server"]
    assert "locked_by VARCHAR(255) NOT NULL" in made[1]
    assert all("shedlock" not in one for one in sql.schema(dialect))
    with pytest.raises(ValueError, match="layout='name': use 'shedlock'"):
        sql.schema(dialect, layout="name")


def test_both_times_have_a_default_on_a_mysql_that_gives_it_to_the_first_one_only() -> None:
    """The other's is then a date of zeros, which the server may refuse; so did it the table."""
    _, made, _ = sql.schema("mysql", layout="shedlock")
    assert "locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)" in made


def test_the_command_prints_what_makes_them() -> None:
    url = ["--url", "mysql://h/db"]
    said = CliRunner().invoke(store_command, ["schema", *url, "--layout", "shedlock"], standalone_mode=False)
    assert [line.split()[5] for line in said.output.splitlines() if line.startswith("CREATE")] == [
        "recipes_queue",
        "shedlock",
        "recipes_server",
    ]


def test_rows_are_the_names_where_each_database_keeps_them() -> None:
    assert row_of("", "x%2Fy") == "x/y"
    assert row_of("app", "two%20words") == "app:two words"
    for cell in ("x%20", "a%252Fb", "%00", "%C2%A0"):
        assert row_of("", cell) == cell


@pytest.mark.parametrize("scheme", STORES_OF)
def test_the_option_makes_the_backend_of_this_layout(scheme: str) -> None:
    backend = cast("SqlBackend", from_url(f"{scheme}://h/db/app", {"layout": "shedlock"}))
    assert type(backend.protocol()) is ShedlockProtocol
    assert type(from_url(f"{scheme}://h/db/app", {}).protocol()) is SqlProtocol
    given, queued = backend.guarantees, STORES[scheme]
    assert (given.order, given.shared, given.values, given.proven) == ("none", False, False, False)
    assert (given.fencing, given.durable, given.linearizable) == (True, True, queued.linearizable)
    assert "a clock of its own" in given.survives


def test_what_a_row_cannot_be_is_refused_before_any_request() -> None:
    client = connect("postgresql://h/db/app", layout="shedlock")
    with pytest.raises(TooWeak):
        client.rwlock("x")
    for need in ("fair", "proven"):
        with pytest.raises(TooWeak):
            connect("postgresql://h/db", layout="shedlock", require=need)
    client.lock("x" * 60)
    connect("postgresql://h/db", layout="shedlock").rlock("é" * 64)
    for lock in (client.lock, client.rlock):
        with pytest.raises(ValueError, match="65 characters in ShedLock's table, and 64 at most"):
            lock("x" * 61)
    connect("postgresql://h/db/app").lock("x" * 61)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="layout='name': use 'shedlock'"):
        connect("mysql://h/db", layout="name")
