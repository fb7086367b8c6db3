"""The tables and the statements on them, as PostgreSQL and as MySQL and MariaDB are sent them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Update
from sqlalchemy.dialects import mysql, postgresql

from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import KEY_LENGTH, Tables, dialect_of

PLACE = "(queue, token, id, kind, session, mark, owner, data, version)"
PG_CLOCK = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
PG_SERVER = "CAST(CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 AS BIGINT) AS VARCHAR)"
MY_NOTE = "concat_ws('/', recipes_server.life, recipes_server.since_us) AS concat_ws_1"
MY_NOTED = f"(SELECT {MY_NOTE} FROM recipes_server WHERE recipes_server.only_row = 1)"
MY_SERVER = f"CONCAT_WS('/', @@server_uuid, CONVERT({MY_NOTED} USING utf8mb4))"
MARIADB_OWN = "@@hostname, @@port, @@server_id"
MY_CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
DIALECTS = {"postgresql": postgresql.dialect(paramstyle="named"), "mysql": mysql.dialect(paramstyle="named")}


def text_of(statement: Any, dialect: str) -> str:
    """Return a statement as it is sent, without the types of its parameters."""
    text = str(statement.compile(dialect=DIALECTS[dialect])).replace("::VARCHAR", "").replace("::BIGINT", "")
    return " ".join(text.split())


def every(say: Statements) -> Iterator[tuple[str, Any]]:
    """Yield all statements, each with a name."""
    for name, found in vars(say).items():
        several = found.values() if isinstance(found, dict) else found if isinstance(found, list) else [found]
        yield from ((name, one) for one in several if hasattr(one, "compile"))


POSTGRESQL = """
CREATE TABLE IF NOT EXISTS recipes_buried (
    id VARCHAR(64) COLLATE "C" NOT NULL,
    until_us BIGINT NOT NULL,
    PRIMARY KEY (id)
)
CREATE TABLE IF NOT EXISTS recipes_contender (
    queue VARCHAR(1100) COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    id VARCHAR(64) COLLATE "C" NOT NULL,
    kind VARCHAR(32) COLLATE "C" NOT NULL,
    session VARCHAR(64) COLLATE "C" NOT NULL,
    mark TEXT NOT NULL,
    owner TEXT NOT NULL,
    data BYTEA NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (queue, token),
    UNIQUE (queue, id),
    UNIQUE (session, queue, token)
)
CREATE TABLE IF NOT EXISTS recipes_named (
    name VARCHAR(1100) COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    PRIMARY KEY (name)
)
CREATE TABLE IF NOT EXISTS recipes_queue (
    name VARCHAR(1100) COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    PRIMARY KEY (name)
)
CREATE TABLE IF NOT EXISTS recipes_receipt (
    session VARCHAR(64) COLLATE "C" NOT NULL,
    name VARCHAR(1100) COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    said BYTEA NOT NULL,
    PRIMARY KEY (session, name)
)
CREATE TABLE IF NOT EXISTS recipes_session (
    id VARCHAR(64) COLLATE "C" NOT NULL,
    ttl_us BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (id)
)
CREATE TABLE IF NOT EXISTS recipes_value (
    name VARCHAR(1100) COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (name)
)
CREATE UNLOGGED TABLE IF NOT EXISTS recipes_watch (
    queue VARCHAR(1100) COLLATE "C" NOT NULL,
    token BIGINT NOT NULL,
    session VARCHAR(64) COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, token, session)
)
CREATE TABLE IF NOT EXISTS recipes_server (
    only_row SMALLINT NOT NULL,
    life VARCHAR(200) COLLATE "C" NOT NULL,
    since_us BIGINT NOT NULL,
    grace_us BIGINT NOT NULL,
    tidied_to VARCHAR(1100) COLLATE "C" NOT NULL,
    PRIMARY KEY (only_row)
)
"""


def test_the_tables_of_postgresql() -> None:
    assert " ".join(Tables().ddl("postgresql")).split() == POSTGRESQL.split()


def test_the_tables_of_mysql_differ_in_types_and_in_the_watches_that_it_has_no_use_for() -> None:
    made = {one.split()[5]: " ".join(one.split()) for one in Tables("app_").ddl("mysql")}
    names = ["buried", "contender", "named", "queue", "receipt", "session", "value", "server"]
    assert list(made) == [f"app_{name}" for name in names]
    assert made["app_contender"] == (
        "CREATE TABLE IF NOT EXISTS app_contender ("
        " queue VARCHAR(1100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " token BIGINT NOT NULL,"
        " id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " session VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
        " mark MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
        " owner MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
        " data LONGBLOB NOT NULL,"
        " version BIGINT NOT NULL,"
        " PRIMARY KEY (queue, token),"
        " UNIQUE (queue, id),"
        " UNIQUE (session, queue, token) )ENGINE=InnoDB"
    )
    assert all(one.endswith(")ENGINE=InnoDB") for one in made.values())


def test_every_name_fits_into_an_index_of_innodb() -> None:
    longest = KEY_LENGTH + 64 + 8  # a session's contender: its session, queue and token
    assert longest <= 3072, "bytes, for each character is one"


@pytest.mark.parametrize("prefix", ["recipes_", "a", "a1_", "a" * 31])
def test_a_prefix_that_needs_no_quotes_is_taken(prefix: str) -> None:
    assert Tables(prefix).queue.name == f"{prefix}queue"


@pytest.mark.parametrize("prefix", ["", "A_", "1_", "_", "a-", "a b", 'a"', "a" * 32, "a\n", "é"])
def test_another_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="a letter first"):
        Tables(prefix)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_can_be_said(dialect: str) -> None:
    texts = [text_of(statement, dialect) for _, statement in every(Statements(Tables(), dialect))]
    assert len(texts) > 40
    assert not any("recipes_watch" in text or "pg_notify" in text for text in texts if dialect == "mysql")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_changes_or_deletes_says_which_rows(dialect: str) -> None:
    """Else MySQL refuses it where sql_safe_updates is on."""
    texts = [text_of(statement, dialect) for _, statement in every(Statements(Tables(), dialect))]
    changing = [text for text in texts if text.startswith(("UPDATE", "DELETE"))]
    assert len(changing) > 10
    assert [text for text in changing if " WHERE " not in text] == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_bound_is_what_a_statement_names(dialect: str) -> None:
    say = Statements(Tables(), dialect)
    row = {"id": "a1", "kind": "W", "mark": "", "owner": "o", "data": b"d"}
    asks = [
        say.lock("q"), say.draw("q"), say.token("q"), say.draw_named("q"), say.token_named("q"),
        say.first_life("s", 1), say.life(), say.next_life("s"),
        say.begin_session("me", 1), say.renew("me"), say.mine("me"), *say.end_session("me"), say.alive("me"),
        say.lives_here("me"), say.stays("me"), say.begun("me"),
        say.dead(["s"]), say.kill(["s"]),
        say.join("q", "me", "bell", **row), say.join_alone("q", "me", "bell", "here", **row),
        say.buried("a1"), say.bury("a1", 1),
        say.shown("q", "a1", 2, exclusive_only=False), say.shown("q", "a1", 2, exclusive_only=True),
        say.count("q", 7, exclusive_only=False), say.count("q", 7, exclusive_only=True),
        say.head("q", 2), say.some("q", [7]), say.free("q", ["s"]), say.delete("q", [7]),
        say.remove("q", "a1", "me", "bell", 7), say.find("q", "a1", "me"),
        say.rewrite("q", "me", token=7, mark="m", data=b"d", version=0), say.written("q", 7, "me"),
        say.guard("q", 7, "me"), say.guard("q", 7, "me", alone=True), say.queues("a:", "a;", 9),
        say.read("v"), say.version("v"), say.set("v", 1, b"d"), say.erase("v"), say.said("v", "me"),
        say.say("v", "me", 1, b""),
        say.stale(9, 1), say.where(["s"]), *say.forget(["s"]), say.old_graves(9), say.dig(["a1"]),
        say.old_receipts("me", 9, 1), say.drop_receipts("me", ["v"], 1),
        say.tidied_to(), say.names("", 9), say.idle(["q"], 1), say.drop_idle(["q"]), say.tidy_to("q"),
    ]  # fmt: skip
    if say.notifies:
        asks += [
            say.watch("q", 7, "me"), say.ring("r_", "q", [7], "g"), say.notify("r_me", ""), say.unwatch("me"),
        ]  # fmt: skip
    for ask in asks:
        named = ask.statement.compile(dialect=DIALECTS[dialect]).params
        assert {name for name in named if name.endswith("_")} == set(ask.values), ask
    said = {id(ask.statement) for ask in asks}
    assert [name for name, one in every(say) if id(one) not in said] == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("first", ["_lock", "_draw", "_draw_named"])
def test_what_locks_the_row_of_a_queue_reads_nothing(dialect: str, first: str) -> None:
    """What it read would be as it was before it waited."""
    text = text_of(getattr(Statements(Tables(), dialect), first), dialect)
    assert "SELECT" not in text
    assert text.startswith("INSERT INTO recipes_")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_by_time_is_one_row_of_a_session(dialect: str) -> None:
    """Who is over is locked and killed; by time alone only tombstones and idle queues are looked for."""
    say = Statements(Tables(), dialect)
    texts = {name: text_of(one, dialect) for name, one in every(say) if not isinstance(one, Update)}
    timed = {
        name for name, text in texts.items() if text.startswith("DELETE") and ("_at" in text or "_us" in text)
    }
    assert not timed


def test_what_changes_rows_of_mysql_reads_no_others() -> None:
    """They would be locked: all of a table, where the server reads it whole."""
    texts = [text_of(one, "mysql") for _, one in every(Statements(Tables(), "mysql"))]
    changes = [text for text in texts if text.startswith(("DELETE", "UPDATE"))]
    assert changes
    assert not [text for text in changes if "SELECT" in text]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("one", ["_dead", "_free", "_idle", "_tidied_to"])
def test_what_somebody_has_locked_is_skipped(dialect: str, one: str) -> None:
    assert text_of(getattr(Statements(Tables(), dialect), one), dialect).endswith("FOR UPDATE SKIP LOCKED")


@pytest.mark.parametrize(
    ("dialect", "clock", "there"),
    [
        ("postgresql", PG_CLOCK, "ON CONFLICT (name) DO UPDATE SET"),
        ("mysql", MY_CLOCK, "ON DUPLICATE KEY UPDATE"),
    ],
)
def test_a_token_is_larger_than_any_before_and_than_the_time(dialect: str, clock: str, there: str) -> None:
    assert text_of(Statements(Tables(), dialect)._draw, dialect) == (
        f"INSERT INTO recipes_queue (name, token) VALUES (:queue_, {clock})"
        f" {there} token = greatest(recipes_queue.token + :token_1, {clock})"
    )


def test_a_contender_joins_once_unless_it_is_buried_or_its_session_over() -> None:
    assert text_of(Statements(Tables(), "mysql")._join, "mysql") == (
        f"INSERT INTO recipes_contender {PLACE}"
        " SELECT recipes_queue.name, recipes_queue.token, :id_ AS anon_1, :kind_ AS anon_2, :me_ AS anon_3,"
        " :mark_ AS anon_4, :owner_ AS anon_5, :data_ AS anon_6, :param_1 AS anon_7"
        " FROM recipes_queue INNER JOIN recipes_session ON recipes_session.id = :me_"
        f" WHERE recipes_queue.name = :queue_ AND recipes_session.expires_at > {MY_CLOCK}"
        " AND NOT (EXISTS (SELECT * FROM recipes_buried WHERE recipes_buried.id = :id_))"
        " AND NOT (EXISTS (SELECT * FROM recipes_contender"
        " WHERE recipes_contender.queue = :queue_ AND recipes_contender.id = :id_))"
    )


def test_a_contender_that_is_to_be_alone_joins_no_queue_with_another() -> None:
    alone, join = (
        text_of(getattr(Statements(Tables(), "mysql"), one), "mysql") for one in ("_join_alone", "_join")
    )
    here, server = alone.removesuffix(" = :server_").rsplit(" AND ", 1)
    assert here == join.removesuffix(" AND recipes_contender.id = :id_))") + "))"
    assert server == MY_SERVER


@pytest.mark.parametrize(("dialect", "server"), [("postgresql", PG_SERVER), ("mysql", MY_SERVER)])
def test_what_grants_reads_which_server_it_is(dialect: str, server: str) -> None:
    """In the same statement: a proxy may lead the next transaction to another."""
    say = Statements(Tables(), dialect)
    for one in (*say._shown.values(), say._head, say._some, say._life):
        assert f"{server} AS server" in text_of(one, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["_some", "_lives_here", "_read"])
def test_what_finds_nothing_reads_all_the_same_which_server_it_is(dialect: str, name: str) -> None:
    """What is looked for is a condition of the join: behind WHERE there would be no row."""
    text = text_of(getattr(Statements(Tables(), dialect), name), dialect)
    assert " FROM (SELECT 1 AS one) AS only LEFT OUTER JOIN recipes_" in text.replace('"', "")
    assert " WHERE " not in text.replace(MY_NOTED, "")


def test_mariadb_has_no_uuid_that_is_the_server_s_own() -> None:
    speaking = mysql.dialect()
    speaking.is_mariadb = True
    assert f"CONCAT_WS('/', {MARIADB_OWN}, " in str(
        Statements(Tables(), "mysql")._life.compile(dialect=speaking)
    )


@pytest.mark.parametrize(
    ("name", "word"),
    [("_join", "INSERT INTO"), ("_join_alone", "INSERT INTO"), ("_remove", "DELETE FROM")],
)
def test_a_contender_that_comes_or_goes_rings_in_the_same_statement(name: str, word: str) -> None:
    text = text_of(getattr(Statements(Tables(), "postgresql"), name), "postgresql")
    assert text.startswith(f"WITH done AS ({word} recipes_contender ")
    assert (
        "heard AS (DELETE FROM recipes_watch WHERE recipes_watch.queue = :queue_"
        " AND recipes_watch.token IN (__[POSTCOMPILE_tokens_])"
        " AND (EXISTS (SELECT done.token FROM done))"
        " RETURNING recipes_watch.session, recipes_watch.token)"
    ) in text


def test_a_renewal_is_no_renewal_of_what_is_over() -> None:
    assert text_of(Statements(Tables(), "mysql")._renew, "mysql") == (
        f"UPDATE recipes_session SET expires_at=({MY_CLOCK} + recipes_session.ttl_us)"
        f" WHERE recipes_session.id = :me_ AND recipes_session.expires_at > {MY_CLOCK}"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_dead_for_good_stays_as_long_as_what_is_over(dialect: str) -> None:
    """A guard finds it there, and knows that this is the database of its grant."""
    say = Statements(Tables(), dialect)
    kill, stale = text_of(say._kill, dialect), text_of(say._stale, dialect)
    assert "SET expires_at=(-abs(recipes_session.expires_at)) WHERE" in kill
    assert "WHERE abs(recipes_session.expires_at) < " in stale


@pytest.mark.parametrize(("dialect", "lock"), [("postgresql", "FOR SHARE"), ("mysql", "LOCK IN SHARE MODE")])
def test_a_guard_stands_until_the_transaction_ends(dialect: str, lock: str) -> None:
    text = text_of(Statements(Tables(), dialect)._guard, dialect)
    assert text.endswith(lock)
    assert "recipes_session.expires_at > " in text


def test_a_guard_of_a_serializable_transaction_of_mysql_reads_the_contender_alone() -> None:
    """All that it reads there is locked, and a renewal waited for the session."""
    text = text_of(Statements(Tables(), "mysql")._guard_alone, "mysql")
    assert text.endswith("LOCK IN SHARE MODE")
    assert "_session" not in text.replace("recipes_contender.session = :me_", "")


def test_nobody_is_notified_of_a_contender_that_has_gone_already() -> None:
    """Nothing would ever delete such a watch while its session lives."""
    text = " ".join(text_of(Statements(Tables(), "postgresql")._watch, "postgresql").split())
    assert "WHERE :token_ = 0 OR (EXISTS (SELECT * FROM recipes_contender WHERE " in text


def test_who_is_notified_watches_no_longer() -> None:
    text = text_of(Statements(Tables(), "postgresql")._ring, "postgresql")
    assert text.startswith("WITH heard AS (DELETE FROM recipes_watch WHERE recipes_watch.queue = :queue_")
    assert "RETURNING recipes_watch.session, recipes_watch.token)" in text


def test_a_dialect_has_one_of_two_names() -> None:
    assert dialect_of("postgresql").name == "postgresql"
    assert dialect_of("mysql").name == "mysql"
