"""Bugs in how a session knows whether a write was done: in the algorithm, and in a store that serves it."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from recipes._programs import barrier
from recipes._run.runtime import Runtime
from recipes.stores import receipts
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Receipts
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.protocol_asking import Asking
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant
from tests.stores import receipt_world as world

__all__ = ["IN_RECEIPTS"]

TESTS = "tests/stores/test_receipts.py"
BARRIER = "tests/programs/test_barrier.py"


def _bug(name: str, owner: ModuleType | type, of: str, *changes: tuple[str, str]) -> TransportMutant:
    return TransportMutant(name, "receipts", TESTS, lambda: rewritten(owner, of, *changes))


ASKING = "{one for one in known.done if (write.key, one) in asking}"

IN_RECEIPTS = [
    _bug("receipts are not compared", Put, "fits", ("receipt == put.expected and", "True and")),
    _bug("a write that is under way is forgotten", Receipts, "exchange", (ASKING, "set()")),
    _bug(
        "a settlement leaves the version",
        world.Store,
        "carry_out",
        ("self.versions += 1", "self.versions += not exchange.settles"),
    ),
    _bug(
        "what may land later is not settled",
        receipts,
        "write_once",
        ("if may_land and (yield from settle_once(receipts, write, ask)):", "if False:"),
    ),
    _bug(
        "what is given up is taken for settled",
        receipts,
        "settle_once",
        ("while write.number not in known.done:", "if False:"),
        ("            break\n", "            pass\n"),
    ),
    _bug(
        "the list of an older receipt is kept",
        Receipts,
        "note",
        ("Receipt(found.version, done)", "Receipt(found.version, self.known(key).done)"),
    ),
    _bug(
        "a comparison with a stale receipt is taken for a refusal",
        receipts,
        "write_once",
        ("if known != before:", "if False:"),
    ),
    _bug(
        "what another write has read is asked again",
        receipts,
        "write_once",
        (
            "    while write.number not in known.done:",
            "    first = True\n    while first or write.number not in known.done:",
        ),
        ("        before = known\n", "        before, first = known, False\n"),
    ),
    _bug(
        "what was answered is listed for ever",
        Receipts,
        "end",
        ("self._asking.pop((write.key, write.number), None)", "pass"),
    ),
    *(
        TransportMutant(name, "late copies", tests, partial(rewritten, owner, of, (old, new)))
        for name, tests, owner, of, old, new in (
            (
                "a late copy of a rewrite undoes that a party leaves",
                BARRIER,
                barrier,
                "_others_leave",
                "Rewrite(mine, LEAVING, mine.ticket.data, version)",
                "Rewrite(mine, LEAVING, mine.ticket.data)",
            ),
            (
                "that a party leaves is written once",
                BARRIER,
                barrier,
                "_others_leave",
                "if version is not None:\n            continue",
                "version = None",
            ),
            (
                "a late copy of a rewrite takes a party back",
                BARRIER,
                barrier,
                "_follow",
                'Rewrite(mine, "", b"%d" % gathers.generation, version)',
                'Rewrite(mine, "", b"%d" % gathers.generation)',
            ),
            (
                "a session whose end nobody has confirmed is forgotten",
                BARRIER,
                Runtime,
                "cleaned",
                "if job.ends_session and session.protocol.lives_on",
                "if False",
            ),
            (
                "a goodbye without an answer ends a session",
                "tests/stores/test_zookeeper_protocol.py",
                Asking,
                "end",
                "not (yield from self._one(Close()))",
                "(yield from self._one(Close())) is None",
            ),
            (
                "kazoo's goodbye counts without an answer",
                "tests/stores/zookeeper/test_life.py",
                KazooSession,
                "_settle_closing",
                "self._ended or self._info is None",
                "True",
            ),
            (
                "a holder believes a server that was replaced",
                "tests/stores/test_redis_protocol.py",
                RedisProtocol,
                "check",
                "if self._replicas and",
                "if False and",
            ),
        )
    ),
]
