"""Runs of a few rounds, and what has to be seen in the histories of one that goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from integration.chaos.history import Book, now_ns
from integration.chaos.resources import REGISTERS
from integration.needing import needed
from integration.redis_faults.places import Cluster, One, Place, Trio
from integration.redis_faults.run import Plan, Result, judged, run
from integration.redis_faults.tokens import rising

SHORT = Plan(rounds=3, processes=2, load_s=0.5, seed="gate")
RESULT = Result("7.0.15", "commit", SHORT)


def test_fault_47_restarts_under_load(figure: Callable[[str], None]) -> None:
    with needed("redis-7", One) as place:
        kept(run(place, SHORT), figure)


@pytest.mark.long
@pytest.mark.parametrize("kind", [Trio, Cluster])
def test_fault_47_failovers_under_load(kind: Callable[[], Place], figure: Callable[[str], None]) -> None:
    with needed("redis-7", kind) as place:
        kept(run(place, replace(SHORT, rounds=4)), figure)


@pytest.mark.long
def test_fault_47_without_a_grace_two_hold(figure: Callable[[str], None]) -> None:
    with needed("redis-7", One) as place:
        result = run(place, Plan(rounds=20, grace_s=0, seed="gate"))
    figure(f"{result}")
    assert result.overlaps
    assert result.fenced


def kept(result: Result, figure: Callable[[str], None]) -> None:
    """See that a run was as promised."""
    figure(f"{result}")
    assert result.exclusive, str(result)
    assert result.fenced, str(result)
    assert result.grants > result.plan.rounds
    assert sum(result.faults.values()) == result.plan.rounds


def test_fault_47_tokens_rise_over_whatever_is_forgotten() -> None:
    done = rising(12, "gate")
    assert set(done) == {"flushed", "wiped", "failed over"}


def noted(folder: Path, *grants: tuple[int, bool]) -> Result:
    """Return the judgement of grants that are acquired one after the other, each with its token.

    Those with True go on until after the next one; each makes an update that is acknowledged.
    """
    book = Book(folder, "c0")
    later: list[str] = []
    for token, stays in grants:
        asked = book.invoke("acquire", lock="one", mode="exclusive", way="wait")
        asked.ok(token=token, session="s")
        book.invoke("write", register="fenced", of=asked.name, value=1).ok(result=True)
        later, over = ([*later, asked.name], []) if stays else ([], [*later, asked.name])
        for name in over:
            book.invoke("release", of=name, held=True, seen=now_ns()).ok(was_held=True)
    for name in later:
        book.invoke("release", of=name, held=True, seen=now_ns()).ok(was_held=True)
    result = replace(RESULT, overlaps=[], tokens=[], wrong=[], updates={}, lost={})
    judged(folder, dict.fromkeys(REGISTERS, len(grants)), result)
    return result


def test_grants_one_after_the_other_are_right(tmp_path: Path) -> None:
    result = noted(tmp_path, (1, False), (2, False))
    assert result.exclusive
    assert result.fenced
    assert result.grants == 2


def test_two_holders_are_seen(tmp_path: Path) -> None:
    result = noted(tmp_path, (1, True), (2, False))
    assert not result.exclusive
    assert result.fenced


@pytest.mark.parametrize("tokens", [(2, 1), (1, 1)])
def test_a_token_that_does_not_rise_is_seen(tmp_path: Path, tokens: tuple[int, int]) -> None:
    result = noted(tmp_path, *((token, False) for token in tokens))
    assert result.exclusive
    assert not result.fenced


def test_a_lost_update_is_seen(tmp_path: Path) -> None:
    noted(tmp_path, (1, False), (2, False))
    result = replace(RESULT, overlaps=[], tokens=[], wrong=[], updates={}, lost={})
    judged(tmp_path, dict.fromkeys(REGISTERS, 1), result)
    assert result.lost["fenced"] == 1
    assert not result.fenced
