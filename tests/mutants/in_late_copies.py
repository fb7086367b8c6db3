"""Bugs where a copy of a request arrives late, or no server has said what became of one."""

from __future__ import annotations

from types import ModuleType

from recipes._programs import barrier
from recipes._run.runtime import Runtime
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.protocol_asking import Asking
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant

__all__ = ["LATE_COPIES"]

BARRIER = "tests/programs/test_barrier.py"
LIFE, ZOOKEEPER = "tests/stores/zookeeper/test_life.py", "tests/stores/test_zookeeper_protocol.py"
REDIS = "tests/stores/test_redis_protocol.py"


def _bug(
    name: str, tests: str, owner: ModuleType | type, of: str, change: tuple[str, str]
) -> TransportMutant:
    return TransportMutant(name, "late copies", tests, lambda: rewritten(owner, of, change))


LEAVES = "Rewrite(mine, LEAVING, mine.ticket.data, version)"
FOLLOWS = 'Rewrite(mine, "", b"%d" % gathers.generation, version)'

LATE_COPIES = [
    _bug("a late copy of a rewrite undoes that a party leaves", BARRIER, barrier, "_others_leave",
         (LEAVES, LEAVES.replace(", version", ""))),
    _bug("that a party leaves is written once", BARRIER, barrier, "_others_leave",
         ("if version is not None:\n            continue", "version = None")),
    _bug("a late copy of a rewrite takes a party back", BARRIER, barrier, "_follow",
         (FOLLOWS, FOLLOWS.replace(", version", ""))),
    _bug("a session whose end nobody has confirmed is forgotten", BARRIER, Runtime, "cleaned",
         ("if job.ends_session and session.protocol.lives_on", "if False")),
    _bug("a goodbye without an answer ends a session", ZOOKEEPER, Asking, "end",
         ("not (yield from self._one(Close()))", "(yield from self._one(Close())) is None")),
    _bug("kazoo's goodbye counts without an answer", LIFE, KazooSession, "_settle_closing",
         ("self._ended or self._info is None", "True")),
    _bug("a holder believes a server that was replaced", REDIS, RedisProtocol, "check",
         ("if self._replicas and", "if False and")),
]  # fmt: skip
