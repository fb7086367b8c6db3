"""Planted leaks are refused, and noise is not: what cannot tell them apart proves nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from integration.soak.growth import BLOCKS, growth

LENGTH, LEVEL, FLOOR = 360, 1000.0, 40.0
SERIES = 100
Shape = Callable[[int, random.Random], float]


def noise(_: int, chance: random.Random) -> float:
    return chance.gauss(0, 15)


def spikes(_: int, chance: random.Random) -> float:
    return 400.0 if chance.random() < 0.05 else chance.gauss(0, 5)


def sawtooth(at: int, chance: random.Random) -> float:
    return at % 13 * 4 + chance.gauss(0, 5)


def a_step(at: int, chance: random.Random) -> float:
    return (200.0 if at > LENGTH // 2 else 0.0) + chance.gauss(0, 5)


def two_steps(at: int, chance: random.Random) -> float:
    return 150.0 * (at > LENGTH // 4) + 150.0 * (at > 2 * LENGTH // 3) + chance.gauss(0, 5)


def a_fall(at: int, chance: random.Random) -> float:
    return -at + chance.gauss(0, 5)


def a_little(at: int, chance: random.Random) -> float:
    return 0.5 * FLOOR * at / LENGTH + chance.gauss(0, 1)


def still(_: int, chance: random.Random) -> float:
    return 0.0


def leak(at: int, chance: random.Random) -> float:
    return 4 * FLOOR * at / LENGTH


def series(number: int, *shapes: Shape) -> list[tuple[float, float]]:
    """Return a sample a second, of the sum of some shapes."""
    chance = random.Random(number)
    drift, found = 0.0, []
    for at in range(LENGTH):
        drift = 0.9 * drift + chance.gauss(0, 2)  # what is measured is not independent of what it was before
        found.append((float(at), LEVEL + drift + sum(shape(at, chance) for shape in shapes)))
    return found


def refused(*shapes: Shape) -> float:
    """Return the share of many series that are taken for leaks."""
    found = [growth(series(number, *shapes), FLOOR) for number in range(SERIES)]
    return sum(one is not None and one.leaks for one in found) / SERIES


@pytest.mark.parametrize("shape", [noise, spikes, sawtooth, a_step, two_steps, a_fall, a_little, still])
def test_noise_is_no_leak(shape: Shape) -> None:
    assert refused(shape) == 0


@pytest.mark.parametrize("shape", [noise, spikes, sawtooth, a_step, still])
def test_a_leak_is_seen_in_any_noise(shape: Shape) -> None:
    assert refused(shape, leak) >= 0.99


def test_a_leak_is_measured() -> None:
    found = growth([(float(at), 3.0 * at) for at in range(LENGTH)], FLOOR)
    assert found is not None
    assert found.rise == pytest.approx(3 * (LENGTH - LENGTH / BLOCKS))
    assert (found.error, found.steps) == (pytest.approx(0), pytest.approx(0))
    assert found.leaks
    assert found.per_hour == pytest.approx(found.rise * 3600 / (LENGTH - 1))


def test_what_is_too_short_is_not_judged() -> None:
    assert growth([], FLOOR) is None
    assert growth([(1.0, 2.0)] * 5, FLOOR) is None
    assert growth([(float(at), 1.0) for at in range(BLOCKS - 1)], FLOOR) is None
