"""Tokens over servers that forget: all is flushed, a server starts without data, a replica takes over."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import recipes
from integration.redis_faults.nodes import Kept, becomes

__all__ = ["rising"]

SESSION_S = 10.0
LEVEL = 0.5
"""How often the replica that takes over has all writes."""


def rising(rounds: int, seed: str) -> Counter[str]:
    """See that each token is larger than all before it, whatever is forgotten; return what happened.

    Raises:
        AssertionError: One was not.
    """
    chance, done = random.Random(seed), Counter[str]()
    tokens = [0]
    with contextlib.ExitStack() as stack:
        pair = [stack.enter_context(Kept(repl_diskless_sync_delay=0)) for _ in range(2)]
        for _ in range(rounds):
            what = chance.choice(["flushed", "flushed", "wiped", "failed over"])
            done[what] += 1
            _grant(pair[0], tokens)
            _forget(pair, what, chance, tokens)
    return done


def _grant(server: Kept, tokens: list[int]) -> None:
    """Have two clients granted a lock, twice each; each token has to be larger than the last."""
    for _ in range(2):
        with recipes.connect(server.url(), session_timeout=SESSION_S, restart_grace=0) as client:
            for _ in range(2):
                grant = client.lock("tokens").acquire(timeout=SESSION_S)
                assert grant.token is not None
                assert grant.token > tokens[-1], f"{grant.token} after {tokens[-1]}"
                tokens.append(grant.token)
                grant.release()


def _forget(pair: list[Kept], what: str, chance: random.Random, tokens: list[int]) -> None:
    master, replica = pair
    if what == "flushed":
        master.ask("FLUSHALL")
    elif what == "wiped":
        master.kill()
        master.wipe()
        master.start()
    else:
        replica.ask("REPLICAOF", master.host, master.port)
        becomes("the replica should have the data", lambda: replica.follows(master.port))
        level = chance.random() < LEVEL
        if not level:
            replica.ask("REPLICAOF", "NO", "ONE")
        _grant(master, tokens)
        if level:
            becomes("the replica should have the last writes", lambda: _level(master, replica))
            replica.ask("REPLICAOF", "NO", "ONE")
        pair.reverse()


def _level(master: Kept, replica: Kept) -> bool:
    """Whether a replica has all that its master has."""
    sent, got = master.info("replication"), replica.info("replication")
    return bool(sent["master_repl_offset"] == got["slave_repl_offset"])
