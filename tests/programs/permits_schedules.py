"""Random schedules of a semaphore: contenders of some weights and limits come, hold, give up and die."""

from __future__ import annotations

import itertools

from recipes._rules.permits import permits
from tests.programs.crowd import Crowd, Shows

__all__ = ["SHOWS", "schedule"]

SHOWS = [Shows(*what) for what in itertools.product((True, False), repeat=3)]
STEPS = 120


def schedule(seed: int, shows: Shows) -> int:
    """Run one; returns how many grants there were, and raises `Broken`."""
    crowd = Crowd(seed, shows)
    chance = crowd.random
    limits = (chance.randint(1, 4),) if seed % 2 else (2, 3, 9)
    for _ in range(STEPS):
        what = chance.random()
        if what < 0.12 and len(crowd.guests) < 9:
            limit = chance.choice(limits)
            weight = chance.choice((1, 1, chance.randint(1, limit)))
            crowd.come(permits(weight, limit), tries=chance.random() < 0.15)
        elif what < 0.22:
            able = [guest for guest in crowd.guests if guest.granted or chance.random() < 0.1]
            if able:
                crowd.go(chance.choice(able))
        elif what < 0.23:
            crowd.disturb()
        elif what < 0.235 and crowd.queue:
            crowd.remove(chance.choice(crowd.queue).ref)  # as an operator does
        elif what < 0.26:
            crowd.settle()
        else:
            crowd.step()
    for _ in range(len(crowd.guests)):
        crowd.settle()
        crowd.disturb()  # one that was removed finds that when it looks
        crowd.settle()
        crowd.go(next(guest for guest in crowd.guests if guest.granted or guest.over))
    return crowd.grants
