"""A short soak, and the proof that a long one would refuse what leaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.chaos.lanes import Shape
from integration.chaos.stages import STAGES
from integration.soak.growth import growth
from integration.soak.sampling import FLOORS, Sampler
from integration.soak.soak import LANES, STORES, Plan, Result, plain, soak
from integration.soak.summary import failed, keep, table

SHORT = Plan(12.0, every_s=2.0, session_s=2.0, samples=120, shape=Shape(wait_s=1.0, stay_s=1.0, rest_s=0.5))
QUICK = ("descriptors", "threads", "keys")
"""What is settled within seconds, as memory is not; on a busy machine there may be too few samples to say."""


def test_a_short_soak_breaks_nothing_and_leaves_nothing(figure: Callable[[str], None]) -> None:
    result = soak("sqlite", SHORT, say=figure)
    figure(f"{result.grants} grants, {result.operations} operations put in order, {result.faults}")
    assert result.violations == []
    assert result.faults
    assert result.grants > 0
    assert not [one for one in result.leaks if any(f" {what} rises" in one for what in QUICK)]


@pytest.mark.long
def test_clients_that_leak_are_noticed(figure: Callable[[str], None]) -> None:
    plan = Plan(60.0, every_s=90.0, session_s=4.0, samples=200, shape=SHORT.shape, lanes=("leaking",))
    result = soak("sqlite", plan, say=figure)
    figure("\n".join(result.leaks))
    leaking = {what for (_, what), one in result.growths.items() if one.leaks}
    assert leaking >= {"rss", "uss", "blocks", "descriptors", "keys"}
    assert not result.good


def result_with(rise: float) -> Result:
    samples = [(float(at), 50 * 2**20 + rise * at) for at in range(360)]
    one = growth(samples, FLOORS["rss"](samples[0][1]))
    assert one is not None
    return Result("redis", "7", "abc", "1", 600.0, growths={("c0", "rss"): one, ("store", "keys"): one})


def test_what_leaks_is_no_proof(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    for rise in (50_000.0, 100.0):
        keep(plain(result_with(rise)), path)
        kept = json.loads(path.read_text())
        assert len(kept) == 1
        assert failed(kept) == (["redis: it leaks"] if rise > 1000 else [])
    assert "| redis 7 | 10.0 | 0 | 0 | 0 | 0 | 50 (+0.3) | - |" in table(kept)


def test_a_client_that_is_gone_early_is_not_judged() -> None:
    sampler = Sampler(list, lambda: 0, 1.0)
    sampler.samples["c0", "threads"] = [(float(at), 1.0) for at in range(100)]
    sampler.samples["c1", "threads"] = [(float(at), 1.0) for at in range(50)]
    sampler.samples["c2", "threads"] = [(float(at), 1.0) for at in range(50, 100)]
    assert list(sampler.growths(30.0)) == [("c0", "threads")]


def test_every_recipe_is_in_a_soak() -> None:
    assert {"reentering", "banking", "permits", "electing", "joining", "dividing", "together"} < set(LANES)
    assert {"counting", "valuing", "adding", "latching", "meeting"} < set(LANES)
    assert {store for store in STORES if not STAGES[store].queues} == {"memcached", "redlock"}
