"""Statements as text for a driver, and whole acts as functions of PostgreSQL."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlalchemy import String, bindparam, literal, select
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from recipes._contract.operations import Ticket
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.requests import Ask, Work
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.texts import Call, Texts, call_of

SAY = Statements.of("recipes_", "postgresql")
CLOCK = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"


def test_a_statement_is_compiled_once_for_all_engines_of_a_driver() -> None:
    first, second = (Texts.of(PGDialect_psycopg()) for _ in range(2))
    assert first is second
    assert first is not Texts.of(PGDialect_asyncpg())
    assert first(SAY.lock("a")).text is second(SAY.lock("b")).text


def of_server(version: tuple[int, ...], *, is_mariadb: bool = False) -> Any:
    """Return the dialect of one driver as it is once it has seen such a server."""
    dialect: Any = mysql.dialect(paramstyle="format")
    dialect.server_version_info, dialect.is_mariadb = version, is_mariadb
    dialect._requires_alias_for_on_duplicate_key = not is_mariadb and version >= (8, 0, 20)
    dialect.use_mysql_for_share = not is_mariadb and version >= (8, 0, 1)
    return dialect


def test_servers_of_one_driver_that_need_other_words_have_their_own() -> None:
    say = Statements.of("recipes_", "mysql")
    asks = say.draw("a"), say.guard("a", 7, "me")
    for dialect, *expected in (
        (of_server((8, 4, 0)), " AS new ON DUPLICATE KEY", " FOR SHARE"),
        (of_server((10, 11, 6), is_mariadb=True), ") ON DUPLICATE KEY", " LOCK IN SHARE MODE"),
        (of_server((8, 0, 11)), ") ON DUPLICATE KEY", " FOR SHARE"),
        (of_server((5, 7, 44)), ") ON DUPLICATE KEY", " LOCK IN SHARE MODE"),
    ):
        for ask, words in zip(asks, expected, strict=True):
            assert words in Texts.of(dialect)(ask).text
    assert Texts.of(of_server((8, 4, 0))) is Texts.of(of_server((8, 4, 0)))


def test_statements_are_made_once_for_all_clients() -> None:
    assert Statements.of("recipes_", "postgresql") is SAY
    assert Statements.of("recipes_", "mysql") is not SAY
    with pytest.raises(ValueError, match="a letter first"):
        Statements.of("A", "mysql")


@pytest.mark.parametrize(
    ("dialect", "text", "values"),
    [
        (
            PGDialect_psycopg(),
            "IN (%(tokens__1)s::BIGINT, %(tokens__2)s::BIGINT, %(tokens__3)s::BIGINT, ",
            None,
        ),
        (PGDialect_asyncpg(), "", ["q", 7, 8, 9, 9]),
        (mysql.dialect(paramstyle="format"), "IN (%s, %s, %s, %s)", ["q", 7, 8, 9, 9]),
    ],
    ids=["psycopg", "asyncpg", "mysql"],
)
def test_a_list_is_filled_up_so_that_few_lengths_are_compiled(
    dialect: Any, text: str, values: list[Any] | None
) -> None:
    texts = Texts(dialect)
    said = texts(SAY.delete("q", [7, 8, 9]))
    assert text in said.text
    expected = {"queue_": "q", "tokens__1": 7, "tokens__2": 8, "tokens__3": 9, "tokens__4": 9}
    assert said.values == (values or expected)
    assert texts(SAY.delete("q", [1, 2, 3, 4])).text is said.text


def test_an_empty_list_finds_nothing() -> None:
    texts = Texts(postgresql.dialect(paramstyle="named"))
    said = texts(SAY.delete("q", []))
    assert "1 != 1" in said.text


def test_what_a_statement_always_says_is_among_its_values() -> None:
    said = Texts(postgresql.dialect(paramstyle="named"))(SAY.draw("q"))
    assert said.values == {"queue_": "q", "token_1": 1}


def taken(acts: Acts) -> tuple[Ask, ...]:
    return next(acts.take(Work(server="here"), Ticket("x", "lock", "a1", owner="o'", data=b"d")))


def test_an_act_becomes_one_function_of_its_statements_in_their_order() -> None:
    call = call_of(taken(Acts(SAY, "app", "recipes_", "me")))
    lines = call.made.text.splitlines()
    assert lines[0].startswith("CREATE OR REPLACE FUNCTION pg_temp.recipes_")
    assert lines[0].endswith(
        "(queue_ text, id_ text, kind_ text, me_ text, mark_ text, owner_ text, data_ bytea, server_ text,"
        " bell_ text, what_ text, tokens__1 bigint) RETURNS SETOF record LANGUAGE plpgsql AS $recipes$"
    )
    first, second, last, end = " ".join(lines[2:-1]).split(";")
    assert lines[1] == "DECLARE ignored_ record; BEGIN"
    assert first == (
        f"INSERT INTO recipes_queue (name, token) VALUES (queue_::VARCHAR, {CLOCK}) ON CONFLICT (name)"
        f" DO UPDATE SET token = greatest(recipes_queue.token + 1::BIGINT, {CLOCK})"
    )
    assert second.startswith(" WITH done AS  (INSERT INTO recipes_contender ")
    assert second.endswith(" INTO ignored_"), "its row is not looked at"
    assert last.startswith(" RETURN QUERY SELECT recipes_contender.token ")
    assert end == " END"


def test_the_values_of_a_function_are_those_of_its_statements() -> None:
    call = call_of(taken(Acts(SAY, "app", "recipes_", "me")))
    assert call.ask.values == {
        "queue_": "app:x", "id_": "a1", "kind_": "W", "me_": "me", "mark_": "", "owner_": "o'",
        "data_": b"d", "server_": "here", "bell_": "recipes_", "what_": "c", "tokens__1": 0,
    }  # fmt: skip
    said = Texts(PGDialect_asyncpg())(call.ask)
    assert said.text.startswith("SELECT * FROM pg_temp.recipes_")
    assert said.text.endswith("AS found(c0 bigint)")
    assert said.values == list(call.ask.values.values())


def test_two_acts_are_two_functions_and_one_act_is_one() -> None:
    acts = Acts(SAY, "app", "recipes_", "me")
    removing = partial(acts.remove, Work(), "x", "a1", 7, bury=False)
    others = Acts(SAY, "other", "recipes_", "you")
    calls: list[Call] = [call_of(one) for one in (taken(acts), taken(others), next(removing()))]
    assert calls[0].made.text is calls[1].made.text
    assert calls[0].made != calls[2].made
    assert calls[2].ask.values["tokens__1"] == 7


def test_a_constant_is_quoted() -> None:
    text = select(literal("it's", String), bindparam("a_", 1))
    call = call_of((Ask(text, {"a_": 1}),))
    assert "'it''s'" in call.made.text
