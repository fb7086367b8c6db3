"""From a log to who waited and held, to the figures, and to the picture."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import events
from recipes.cli import main
from recipes.cli.history.counting import gaps, longest_waits, overlaps, summary
from recipes.cli.history.drawing import drawing, words
from recipes.cli.history.lanes import places
from recipes.cli.history.page import page
from recipes.cli.history.reading import Log, NoEvents, read
from recipes.cli.history.spans import LockHistory, histories

SVG = "{http://www.w3.org/2000/svg}"
QUEUED = '{"event": "lock.queued", "name": "x", %s: 1}\n'
RECORDED = Path(__file__).with_name("recorded.jsonl")


def line(at: float, worker: int, event: str, **fields: Any) -> dict[str, Any]:
    return {"at": at, "worker": worker, "event": f"lock.{event}", "name": "x", "mode": "exclusive", **fields}


def log(*lines: dict[str, Any]) -> Log:
    return read([("log.jsonl", io.StringIO("".join(json.dumps(one) + "\n" for one in lines)))])


def history(*lines: dict[str, Any], noun: str = "lock") -> LockHistory:
    named = ({**one, "event": one["event"].replace("lock.", f"{noun}.")} for one in lines)
    (one,) = histories(log(*named).happenings)
    return one


HAND_OVER = (
    line(10.0, 1, "acquired", token=7, waited_s=0.001),
    line(10.1, 2, "queued", position=1),
    line(10.5, 1, "released", token=7, held_s=0.5),
    line(10.503, 2, "acquired", token=8, waited_s=0.403),
    line(11.0, 2, "released", token=8, held_s=0.497),
)


def test_a_hand_over() -> None:
    one = history(*HAND_OVER)
    assert one.lanes == ["worker 1", "worker 2"]
    (wait,) = one.waits
    assert (wait.lane, wait.start, wait.end, wait.how, wait.token) == (
        "worker 2",
        10.1,
        10.503,
        "acquired",
        8,
    )
    assert [(hold.lane, hold.start, hold.end, hold.token, hold.how) for hold in one.holds] == [
        ("worker 1", 10.0, 10.5, 7, "released"),
        ("worker 2", 10.503, 11.0, 8, "released"),
    ]
    (gap,) = gaps(one)
    assert (gap.giver, gap.taker, gap.token) == ("worker 1", "worker 2", 8)
    assert gap.seconds == pytest.approx(0.003)
    figures = summary(one)
    assert (figures.grants, figures.contenders, figures.contended, figures.longest_queue) == (2, 2, 0.5, 1)
    assert figures.busy == pytest.approx(0.998 / 1.001, abs=1e-3)
    assert figures.wait is not None
    assert (figures.wait.p50_s, figures.wait.longest_s) == (0.001, 0.403)


@pytest.mark.parametrize("noun", events.HELD)
def test_a_hand_over_is_one_whatever_its_noun_calls_it(noun: str) -> None:
    lines = [{**one, "event": events.event_of(noun, one["event"].partition(".")[2])} for one in HAND_OVER]
    one, lock = history(*lines), history(*HAND_OVER)
    assert not one.marks, "each event is understood"
    assert (summary(one).recipe, one.title) == (noun, "x" if noun == "lock" else f"{noun} x")
    if noun in ("group", "partition"):  # of members, and of their items, several are held at once
        assert {hold.mode for hold in one.holds} == {"shared"}
        assert gaps(one) == []
    else:
        assert drawing([one]) == drawing([lock]).replace(">x<", f">{one.title}<")
        assert replace(summary(one), recipe="lock") == summary(lock)


def test_what_has_one_name_is_told_apart_by_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, picture = tmp_path / "events.jsonl", tmp_path / "timeline.svg"
    with recorded.open("w") as file, recipes.connect("memory://") as client:
        end = events.log_json(file)
        try:
            with client.lock("x"), client.election("x").campaign(), client.semaphore("x", 2):
                for _ in range(2):
                    client.group("x").join().release()
        finally:
            end()
    assert main(["stats", "--json", str(recorded)]) == 0
    found = {one["recipe"]: (one["lock"], one["grants"]) for one in json.loads(capsys.readouterr().out)}
    assert found == {"lock": ("x", 1), "election": ("x", 1), "semaphore": ("x", 1), "group": ("x", 2)}
    assert main(["timeline", str(recorded), "--lock", "x", "-o", str(picture)]) == 0
    titles = [one.text for one in ET.parse(picture).iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["x", "election x", "semaphore x", "group x"]
    assert main(["stats", str(recorded)]) == 0
    assert "group x: 2 grants to 1 in" in capsys.readouterr().out


def test_the_items_of_a_group_are_one_unless_one_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    happened = [
        {**line(at, worker, event, token=token, **{field: 1.0}), "name": f"the%20crew/{item}"}
        for at, worker, event, item, token, field in (
            (1.0, 1, "acquired", "a/1", 1, "waited_s"),
            (1.1, 1, "acquired", "b", 2, "waited_s"),
            (2.0, 1, "released", "a/1", 1, "held_s"),
            (2.1, 2, "acquired", "a/1", 3, "waited_s"),
            (3.0, 1, "released", "b", 2, "held_s"),
        )
    ]
    one = history(*happened, noun="partition")
    assert (one.title, one.lanes) == ("partition the crew", ["worker 1", "worker 2"])
    assert [(hold.token, hold.how, hold.end) for hold in one.holds] == [
        (1, "released", 2.0),
        (2, "released", 3.0),
        (3, "open", 3.0),
    ]
    assert (gaps(one), summary(one).shared_at_once) == ([], 2)
    logged = tmp_path / "events.jsonl"
    named = ({**fields, "event": fields["event"].replace("lock.", "partition.")} for fields in happened)
    logged.write_text("".join(f"{json.dumps(fields)}\n" for fields in named))
    assert main(["stats", "--json", "--lock", "the%20crew/a/1", str(logged)]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["lock"], item["grants"], item["shared_at_once"]) == ("the%20crew/a/1", 2, 0)
    assert main(["stats", "--lock", "nothing", str(logged)]) == 2
    assert "there are the crew\n" in capsys.readouterr().err


def test_members_that_are_there_together_exclude_nobody() -> None:
    one = history(
        line(1.0, 1, "joined", token=1, waited_s=0.0),
        line(1.2, 2, "joined", token=2, waited_s=0.0),
        line(2.0, 2, "left", token=2, held_s=0.8),
        line(2.5, 3, "joined", token=3, waited_s=0.0),
        line(3.0, 1, "lost", token=1, reason="revoked"),
        line(4.0, 3, "left", token=3, held_s=1.5),
        noun="group",
    )
    assert [hold.superseded_at for hold in one.holds] == [None] * 3
    assert (gaps(one), overlaps(one)) == ([], 0)
    figures = summary(one)
    assert (figures.grants, figures.lost, figures.shared_at_once) == (3, 1, 2)


def test_a_grant_that_is_told_before_the_release_is_a_gap_of_nothing() -> None:
    early = [dict(one) for one in HAND_OVER]
    early[3]["at"], early[3]["waited_s"] = 10.49, 0.39
    assert [gap.seconds for gap in gaps(history(*early))] == [0.0]


def test_readers_take_over_from_a_writer_and_from_its_downgrade() -> None:
    one = history(
        line(1.0, 1, "acquired", token=1, waited_s=0.0),
        line(1.1, 2, "queued", mode="shared", position=1),
        line(1.1, 3, "queued", mode="shared", position=1),
        line(2.0, 1, "downgraded", token=1, held_s=1.0),
        line(2.01, 2, "acquired", mode="shared", token=2, waited_s=0.91),
        line(2.02, 3, "acquired", mode="shared", token=3, waited_s=0.92),
        line(2.5, 4, "queued", position=3),
        line(3.0, 1, "released", token=1, held_s=2.0),
        line(3.1, 2, "released", token=2, held_s=1.09),
        line(4.0, 3, "released", token=3, held_s=1.98),
        line(4.1, 4, "acquired", token=4, waited_s=1.6),
    )
    found = [(gap.giver, gap.taker, round(gap.seconds, 3)) for gap in gaps(one)]
    assert found == [
        ("worker 1", "worker 2", 0.01),
        ("worker 1", "worker 3", 0.02),
        ("worker 3", "worker 4", 0.1),
    ]
    assert one.holds[0].downgraded_at == 2.0
    assert [hold.how for hold in one.holds][-1] == "open"


def test_a_loss_that_was_told_late_shows_when_another_held() -> None:
    one = history(
        line(1.0, 1, "acquired", token=1, waited_s=0.0),
        line(1.5, 2, "queued", position=1),
        line(2.0, 1, "suspect", token=1),
        line(3.0, 2, "acquired", token=2, waited_s=1.5),
        line(4.0, 1, "lost", token=1, reason="stopped"),
        line(5.0, 2, "released", token=2, held_s=2.0),
    )
    lost = one.holds[0]
    assert (lost.how, lost.end, lost.superseded_at) == ("lost", 4.0, 3.0)
    assert gaps(one) == []
    assert [(mark.what, mark.at, mark.reason) for mark in one.marks] == [
        ("suspect", 2.0, ""),
        ("lost", 4.0, "stopped"),
    ]
    figures = summary(one)
    assert (figures.lost, figures.suspect) == (1, 1)
    assert figures.busy == pytest.approx(1.0)


def test_the_grant_of_a_killed_process_ends_where_another_has_its_own() -> None:
    """It went on for ever: held all the time, and no hand-over was counted any more."""
    killed = history(line(1.0, 9, "acquired", token=1, waited_s=0.0), *HAND_OVER)
    assert (killed.holds[0].how, killed.holds[0].superseded_at) == ("open", 10.0)
    assert [gap.seconds for gap in gaps(killed)] == [gap.seconds for gap in gaps(history(*HAND_OVER))]
    assert "its end is in no log" in words(killed.holds[0])
    assert "worker 9" not in places(killed)
    alone = history(line(1.0, 9, "acquired", token=1, waited_s=0.0), line(2.0, 2, "queued", position=1))
    assert "holds where the log ends" in words(alone.holds[0])
    assert places(alone)["worker 9"].startswith("holds")


@pytest.mark.parametrize(
    "odd",
    [
        {"at": None, "timestamp": None},
        {"waited_s": "0.5"},
        {"token": "7"},
        {"name": 7},
    ],
)
def test_a_line_that_is_odd_is_another(odd: dict[str, Any]) -> None:
    found = log({**HAND_OVER[0], **odd}, *HAND_OVER[1:])
    assert (len(found.happenings), found.other) == (4, 1)


def test_a_time_that_is_none_is_no_clock() -> None:
    """With it as one of those since boot the log was said to have two."""
    by_day = [{**one, "timestamp": one["at"], "at": None} for one in HAND_OVER]
    del by_day[0]["at"]
    assert len(log(*by_day).happenings) == 5


def test_the_name_of_a_logger_is_none_of_a_lock() -> None:
    found = log({**HAND_OVER[0], "name": "recipes", "recipe_name": "nightly"})
    assert found.happenings[0].name == "nightly"


@pytest.mark.parametrize("name", ["jobs:key:1", "a\\[/b]", "a\x01\x1b[2J"])
def test_a_name_is_printed_as_it_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, picture = tmp_path / "log.jsonl", tmp_path / "x.svg"
    written.write_text("".join(json.dumps({**one, "name": name}) + "\n" for one in HAND_OVER))
    assert main(["stats", str(written)]) == 0
    said = capsys.readouterr().out
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in name)
    assert said.count(shown) == 2
    assert main(["timeline", str(written), "-o", str(picture)]) == 0
    assert shown in "".join(ET.parse(picture).getroot().itertext())


def test_a_shared_grant_that_was_lost_is_superseded_by_a_writer_only() -> None:
    def with_other(mode: str) -> float | None:
        return (
            history(
                line(1.0, 1, "acquired", token=1, mode="shared"),
                line(2.0, 2, "acquired", token=2, mode=mode),
                line(3.0, 1, "lost", token=1, mode="shared"),
            )
            .holds[0]
            .superseded_at
        )

    assert with_other("shared") is None
    assert with_other("exclusive") == 2.0


def test_one_that_queues_anew_waits_on_and_one_that_gives_up_does_not() -> None:
    one = history(
        line(1.0, 1, "queued", position=1),
        line(1.5, 2, "queued", position=2),
        line(2.0, 1, "requeued", reason="session lost"),
        line(2.2, 1, "queued", position=1, attempt=2),
        line(2.5, 2, "timeout", waited_s=1.0),
        line(3.0, 3, "cancelled", waited_s=0.25, reason="KeyboardInterrupt"),
        line(4.0, 1, "acquired", token=3, attempt=2, waited_s=3.0),
    )
    assert [(wait.lane, wait.start, wait.end, wait.how) for wait in one.waits] == [
        ("worker 1", 1.0, 2.0, "requeued"),
        ("worker 2", 1.5, 2.5, "timeout"),
        ("worker 1", 2.0, 4.0, "acquired"),
        ("worker 3", 2.75, 3.0, "cancelled"),
    ]
    assert [wait.lane for wait in longest_waits(one)] == ["worker 1", "worker 1", "worker 2", "worker 3"]
    figures = summary(one)
    assert (figures.requeued, figures.timeouts, figures.cancelled) == (1, 1, 1)


def test_a_grant_that_was_lost_before_its_caller_had_it_ends_where_it_queues_anew() -> None:
    one = history(
        line(1.0, 1, "queued", position=1),
        line(2.0, 1, "acquired", token=3, waited_s=1.0),
        line(5.0, 1, "requeued", reason="stopped"),
        line(5.1, 1, "queued", position=1, attempt=2),
        line(6.0, 1, "acquired", token=9, attempt=2, waited_s=5.0),
    )
    assert [(hold.start, hold.end, hold.how) for hold in one.holds] == [
        (2.0, 5.0, "lost"),
        (6.0, 6.0, "open"),
    ]


def test_a_log_that_begins_and_ends_in_the_middle() -> None:
    one = history(
        line(5.0, 1, "released", token=1, held_s=2.0),
        line(5.2, 2, "requeued", reason="session lost"),
        line(6.0, 3, "queued", position=1),
        line(7.0, 4, "acquired", token=4, waited_s=0.5),
    )
    assert one.start == 3.0
    assert [(hold.start, hold.end, hold.how) for hold in one.holds] == [
        (3.0, 5.0, "released"),
        (7.0, 7.0, "open"),
    ]
    assert [(wait.lane, wait.end, wait.how) for wait in one.waits][-1] == ("worker 3", 7.0, "open")


def test_threads_that_share_a_lane_are_told_apart_by_token() -> None:
    one = history(
        line(1.0, 1, "acquired", token=1, mode="shared"),
        line(1.1, 1, "acquired", token=2, mode="shared"),
        line(1.2, 1, "released", token=2, mode="shared"),
        line(1.5, 1, "released", token=1, mode="shared"),
    )
    assert [(hold.token, hold.end) for hold in one.holds] == [(1, 1.5), (2, 1.2)]


def two_stores() -> list[dict[str, Any]]:
    """Return events of a lock of one name on two stores, held on both all the time."""
    one, other = {"store": "etcd://a:2379/app"}, {"store": "sqlite:///srv/app.db"}
    return [
        line(1.0, 1, "acquired", token=7, waited_s=0.0, **one),
        line(1.0, 2, "acquired", token=7, waited_s=0.0, **other),
        line(1.5, 3, "queued", position=1, **other),
        line(2.0, 1, "released", token=7, held_s=1.0, **one),
        line(3.0, 2, "released", token=7, held_s=2.0, **other),
        line(3.1, 3, "acquired", token=8, waited_s=1.6, **other),
        line(4.0, 3, "released", token=8, held_s=0.9, **other),
    ]


def test_locks_of_one_name_on_different_stores_are_different_locks() -> None:
    one, other = histories(log(*two_stores()).happenings)
    assert [(found.lock, found.store) for found in (one, other)] == [
        ("x", "etcd://a:2379/app"),
        ("x", "sqlite:///srv/app.db"),
    ]
    assert [found.title for found in (one, other)] == ["x on etcd://a:2379/app", "x on sqlite:///srv/app.db"]
    assert [(found.lanes, len(found.holds), len(gaps(found))) for found in (one, other)] == [
        (["worker 1"], 1, 0),
        (["worker 2", "worker 3"], 2, 1),
    ]
    figures = summary(one)
    assert (figures.grants, figures.seconds, figures.busy, figures.hand_over) == (1, 1.0, 1.0, None)
    assert figures.as_fields()["store"] == "etcd://a:2379/app"


def test_the_store_is_shown_only_where_there_are_several() -> None:
    alone = [one for one in two_stores() if one["store"].startswith("etcd")]
    assert [found.title for found in histories(log(*alone).happenings)] == ["x"]
    assert history(line(1.0, 1, "acquired", token=7)).store is None


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("etcd://a:1,b:1/app", "etcd://b:1,a:1/app", True),
        ("etcd://a:1,b:1/app", "etcd://b:1,c:1/app", True),
        ("etcd://a:1/app", "etcd://b:1/app", False),
        ("etcd://a:1/app", "etcd://a:1/other", False),
        ("etcd://a:1/app", "zookeeper://a:1/app", False),
        ("etcd://a:1/app", "etcds://a:1/app", True),
        ("etcd://a:1/app", "etcds+grpc://a:1/app", True),
        ("rediss://a:1/0/app", "redis://a:1/0/app", True),
        ("redis+sentinel://a:1/m/0/app", "rediss+sentinel://a:1/m/0/app", True),
        ("redis+cluster://a:1/0/app", "redis://a:1/0/app", False),
        ("postgresql+asyncpg://a:1/db/app", "postgresql://a:1/db/app", True),
        ("mariadb+pymysql://a:1/db/app", "mysql+asyncmy://a:1/db/app", True),
        ("mysql://a:1/db/app", "postgresql://a:1/db/app", False),
        ("memory://a", "memory://b", False),
        ("sqlite:///a.db", "sqlite:///b.db", False),
        (7, 7, True),
    ],
)
def test_a_store_is_known_by_its_root_and_any_of_its_servers(first: Any, second: Any, same: bool) -> None:
    found = histories(
        log(
            line(1.0, 1, "acquired", token=7, store=first),
            line(2.0, 2, "acquired", token=8, store=second),
        ).happenings
    )
    assert (len(found) == 1) is same


def test_two_clients_that_share_no_server_are_of_one_cluster_by_a_third() -> None:
    urls = ("etcd://a:1/app", "etcd://b:1/app", "etcd://a:1,b:1/app")
    lines = [line(number, number, "acquired", token=number, store=url) for number, url in enumerate(urls, 1)]
    assert [len(one.holds) for one in histories(log(*lines).happenings)] == [3]


def test_lanes_are_in_the_order_of_their_numbers() -> None:
    one = history(*(line(1.0 + number, number, "acquired", token=number) for number in (10, 9, 2)))
    assert one.lanes == ["worker 2", "worker 9", "worker 10"]


def test_a_lane_may_have_a_digit_that_is_no_number() -> None:
    fields = {"event": "lock.acquired", "name": "x", "timestamp": "2026-01-01T00:00:00Z", "token": 7}
    text = "".join(json.dumps({**fields, "service": service}) + "\n" for service in ("m²", "m①", "m٣"))
    (one,) = histories(read([("log", io.StringIO(text))], "service").happenings)
    assert one.lanes == ["m٣", "m²", "m①"]


@pytest.mark.parametrize(
    ("fields", "chosen", "lane"),
    [
        ({"worker": 3, "pid": 7}, None, "worker 3"),
        ({"host": "a", "pid": 7, "thread": "T"}, None, "a 7 T"),
        ({"pid": 7}, None, "7"),
        ({"process": 7}, None, "7"),
        ({}, None, "log"),
        ({"service": "mail", "pid": 7}, "service", "mail"),
        ({"pid": 7}, "service", "?"),
    ],
)
def test_who_it_was(fields: dict[str, Any], chosen: str | None, lane: str) -> None:
    text = json.dumps({"timestamp": "2026-01-01T00:00:00Z", "event": "lock.acquired", "name": "x", **fields})
    (one,) = read([("some/log.jsonl", io.StringIO(text))], chosen).happenings
    assert one.lane == lane


def test_several_files_are_several_places() -> None:
    texts = [json.dumps({"time": 5, "event": "lock.queued", "name": "x", "pid": 7})] * 2
    found = read([(f"logs/{name}.jsonl", io.StringIO(text)) for name, text in zip("ab", texts, strict=True)])
    assert {one.lane for one in found.happenings} == {"a 7", "b 7"}


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    """As of several containers, where each process has the number 1."""
    text = json.dumps({"time": 5, "event": "lock.queued", "name": "x", "pid": 1})
    names = ("one/log.jsonl", "two/log.jsonl", "three/other.jsonl")
    found = read([(name, io.StringIO(text)) for name in names])
    assert {one.lane for one in found.happenings} == {"one/log.jsonl 1", "two/log.jsonl 1", "other 1"}


def test_other_lines_are_passed_over() -> None:
    text = '\n[1]\nno json\n{"event": "session.started", "at": 1}\n' + QUEUED % '"at"'
    found = read([("log", io.StringIO(text))])
    assert (len(found.happenings), found.other) == (1, 3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no event of a lock among 0 lines"),
        ("words\n", "no event of a lock among 1 lines"),
        ('{"event": "lock.queued", "name": "x", "timestamp": "noon"}\n', "'noon' is no time"),
        (QUEUED % '"at"' + QUEUED % '"ts"', "draw them one by one"),
    ],
)
def test_nothing_to_draw_is_said(text: str, complaint: str) -> None:
    with pytest.raises(NoEvents, match=complaint):
        read([("log", io.StringIO(text))])


def test_the_log_of_the_package_is_understood() -> None:
    stream = io.StringIO()
    stop = events.log_json(stream)
    with recipes.connect("memory://") as client:
        with client.lock("x"):
            assert client.lock("x").try_acquire() is None
        with client.rwlock("y").writer as grant:
            grant.downgrade()
    stop()
    stream.seek(0)
    found = {one.lock: one for one in histories(read([("log", stream)]).happenings)}
    assert [hold.how for hold in found["x"].holds] == ["released"]
    assert found["y"].holds[0].downgraded_at is not None


def test_writes_of_values_are_passed_over() -> None:
    stream = io.StringIO()
    stop = events.log_json(stream)
    with recipes.connect("memory://") as client, client.lock("x"):
        client.value("x").set(b"new")
        client.counter("x").add()
        client.latch("x", 2).count_down()
    stop()
    stream.seek(0)
    found = read([("log", stream)])
    assert [one.event for one in found.happenings] == ["lock.acquired", "lock.released"]
    assert found.other == len(["session.started", *events.SHARED, "session.closed"])
    (one,) = histories(found.happenings)
    assert (one.title, len(one.holds)) == ("x", 1)


def some_log(seed: int) -> list[dict[str, Any]]:
    """Return events in which everything happens, in no sensible order."""
    dice = random.Random(seed)
    kinds = [
        "queued",
        "acquired",
        "released",
        "lost",
        "suspect",
        "requeued",
        "timeout",
        "cancelled",
        "downgraded",
    ]
    return [
        line(
            dice.random() * 10,
            dice.randint(1, 9),
            dice.choice(kinds),
            token=dice.choice([None, dice.randint(1, 30)]),
            mode=dice.choice(["shared", "exclusive"]),
            waited_s=dice.choice([None, dice.random()]),
            held_s=dice.choice([None, dice.random()]),
            name=dice.choice(["x", "<b>&amp;</b>"]),
            reason="<i>&",
        )
        for _ in range(dice.randint(1, 120))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_logged_is_drawn_and_counted(seed: int) -> None:
    found = histories(log(*some_log(seed)).happenings)
    root = ET.fromstring(drawing(found))
    assert len(root.findall(f"{SVG}g[@class='panel']")) == len(found)
    bars = root.findall(f".//{SVG}rect[@data-a]")
    assert len(bars) >= sum(len(one.waits) + len(one.holds) for one in found)
    for bar in bars:
        assert 0 < float(bar.attrib["width"]) <= 1100
        assert 100 <= float(bar.attrib["x"]) <= 1200
    for one in found:
        figures = summary(one)
        assert 0 <= figures.contended <= 1
        assert 0 <= figures.busy <= 1.000001
        assert all(gap.seconds >= 0 for gap in gaps(one))
        json.dumps(figures.as_fields())


@pytest.mark.parametrize("seed", range(20))
def test_what_was_lost_is_superseded_by_the_first_of_all_that_came_meanwhile(seed: int) -> None:
    """As by looking at each pair."""
    for one in histories(log(*some_log(seed)).happenings):
        for lost in one.holds:
            shared = lost.mode == "shared" or lost.downgraded_at is not None
            others = [
                other.start
                for other in one.holds
                if lost.start < other.start < lost.end and not (shared and other.mode == "shared")
            ]
            if lost.how in ("lost", "open"):
                assert lost.superseded_at == min(others, default=None)


class Elements(HTMLParser):
    """What a page loads, and what is in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else_and_says_what_names_say() -> None:
    found = histories(log(*some_log(1)).happenings)
    seen = Elements(page(found, "Timeline of <b>"))
    assert seen.loads == []
    assert "Timeline of <b>" in seen.text
    assert "<b>&amp;</b>" in seen.text  # the lock's name, not markup


def test_a_picture_names_its_parts_and_shows_the_end_of_tokens() -> None:
    lines = [dict(one) for one in HAND_OVER]
    for one in lines:
        if "token" in one:
            one["token"] += 1_099_511_627_700
    found = history(*lines)
    text = drawing([found])
    titles = [title.text for title in ET.fromstring(text).iter(f"{SVG}title")]
    assert titles == [words(part) for part in (*found.waits, *found.holds)]
    assert ">07</text>" in text
    assert "of the tokens 1099511627707 to 1099511627708 the last 2 figures are shown" in text
    assert "Hand-overs: 1, half within 3 ms" in text
    assert "Longest waits: 403 ms from 0.101 s, worker 2" in text


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    return Path(shutil.copy(RECORDED, tmp_path / "events.jsonl"))


@pytest.mark.parametrize("suffix", ["svg", "html", "HTML"])
def test_the_command_draws(logged: Path, suffix: str) -> None:
    output = logged.with_suffix(f".{suffix}")
    assert main(["timeline", str(logged), "-o", str(output)]) == 0
    assert "recipes demo accounts" in output.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["-o", "x.png"], 2, "ends with .svg or .html"),
        ([], 2, "Missing option"),
        (["-o", "x.svg", "--lock", "nobody's"], 2, "there are recipes demo, recipes demo accounts"),
    ],
)
def test_the_command_refuses(
    logged: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, complaint: str
) -> None:
    assert main(["timeline", str(logged), *arguments]) == code
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_the_command_counts(logged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(logged)]) == 0
    said = capsys.readouterr().out
    assert "hand-over" in said
    assert "recipes demo: 40 grants to 5 in" in said
    assert main(["stats", "--json", "--lock", "recipes demo", str(logged)]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["lock"], one["grants"], one["lost"]) == ("recipes demo", 40, 0)
    assert one["wait"]["count"] == 40


def test_the_url_of_a_store_is_not_cut_in_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = ",".join(f"etcd-{number}.internal.example.net:2379" for number in range(3))
    long = f"etcd://{servers}/production/reports"
    renamed = [one | {"store": long} if one["store"].startswith("etcd") else one for one in two_stores()]
    logged = tmp_path / "events.jsonl"
    logged.write_text("".join(json.dumps(one) + "\n" for one in renamed))
    assert main(["stats", str(logged)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == long
    assert not [one for one in said if "…" in one]


#: The widths of letters in Helvetica, in thousandths of the size; other fonts are up to an eighth wider.
HELVETICA = {
    **dict.fromkeys("ijl", 222),
    **dict.fromkeys("ft, ", 278),
    "r": 333,
    **dict.fromkeys("ckosvxyz", 500),
    "w": 722,
    "m": 833,
}


def test_the_entries_of_the_legend_are_as_far_apart_from_each_other() -> None:
    (one,) = histories(log(line(1.0, 1, "acquired", token=7)).happenings)
    head = drawing([one]).partition('<g class="panel"')[0]
    texts = [(float(x), text) for x, text in re.findall(r'<text x="([\d.]+)" y="24">([^<]+)<', head)]
    symbols = [float(x) for x in re.findall(r'<rect class="\w+" x="([\d.]+)" y="14"', head)]
    symbols += [float(x) - 6 for x in re.findall(r'transform="translate\(([\d.]+),20\)"', head)]
    assert len(texts) == len(symbols) == 9
    for wider in (1.0, 1.125):
        ends = [x + 0.012 * wider * sum(HELVETICA.get(one, 556) for one in text) for x, text in texts]
        gaps = [symbol - end for end, symbol in zip(ends, symbols[1:], strict=False)]
        assert min(gaps) > 8, gaps
        assert max(gaps) < 40, gaps


def test_the_command_keeps_stores_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = tmp_path / "events.jsonl"
    logged.write_text("".join(json.dumps(one) + "\n" for one in two_stores()))
    assert main(["stats", str(logged)]) == 0
    said = capsys.readouterr().out
    assert "x on etcd://a:2379/app: 1 grants to 1 in 1.00 s" in said
    assert "x on sqlite:///srv/app.db: 2 grants to 2 in 3.00 s" in said
    lines = said.splitlines()
    headings = [lines.index(store) for store in ("etcd://a:2379/app", "sqlite:///srv/app.db")]
    for first, end in zip(headings, (headings[1], len(lines)), strict=True):  # a table below each
        (row,) = (one for one in lines[first:end] if one.startswith("│ x "))
        assert "wait" in row
    assert main(["stats", "--json", "--lock", "x", str(logged)]) == 0
    assert [one["store"] for one in json.loads(capsys.readouterr().out)] == [
        "etcd://a:2379/app",
        "sqlite:///srv/app.db",
    ]
    for kind in ("svg", "html"):
        drawn = tmp_path / f"timeline.{kind}"
        assert main(["timeline", str(logged), "-o", str(drawn)]) == 0
        assert "x on etcd://a:2379/app" in drawn.read_text()
        assert "x on sqlite:///srv/app.db" in drawn.read_text()


def test_the_command_reads_standard_input(
    logged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(logged.read_text()))
    assert main(["stats", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_file_without_events_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_text("")
    assert main(["stats", str(tmp_path / "empty")]) == 2
    assert "no event of a lock" in capsys.readouterr().err
