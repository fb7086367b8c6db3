"""Bugs in how a session knows whether a write was done: in the algorithm, and in a store that serves it."""

from __future__ import annotations

from types import ModuleType

from recipes.stores import receipts
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Receipts
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant
from tests.stores import receipt_world as world

__all__ = ["IN_RECEIPTS"]

TESTS = "tests/stores/test_receipts.py"


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
]
