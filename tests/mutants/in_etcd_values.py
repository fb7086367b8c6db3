"""Bugs to plant in how etcd keeps values, and in what its transports say of a request without an answer."""

from __future__ import annotations

from types import ModuleType

from recipes.stores.etcd import protocol_values
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.pool import Pipeline
from recipes.stores.etcd.protocol_asking import AskingProtocol
from recipes.stores.etcd.protocol_values import ValuesProtocol
from recipes.stores.etcd.tasks import AsyncEtcdConnection
from recipes.stores.receipts import Receipts
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant

__all__ = ["ETCD_VALUES"]

STEPS = "tests/stores/test_etcd_protocol_values.py"
LAYOUT = "tests/stores/test_etcd_layout.py"
WIRES = "tests/stores/etcd/test_connections.py"
LINE = "tests/stores/etcd/test_tasks.py"
RECEIPTS = "tests/stores/test_receipts.py"


def _bug(
    name: str, owner: ModuleType | type, of: str, *changes: tuple[str, str], tests: str = STEPS
) -> TransportMutant:
    return TransportMutant(name, "etcd values", tests, lambda: rewritten(owner, of, *changes))


ETCD_VALUES = [
    _bug(
        "a receipt is bound to no lease",
        ValuesProtocol,
        "_body",
        ("put.receipt, self._lease", "put.receipt, NO_LEASE"),
    ),
    _bug(
        "a value is bound to the lease",
        ValuesProtocol,
        "_body",
        ("write.data, NO_LEASE", "write.data, self._lease"),
    ),
    _bug(
        "a receipt is not compared",
        ValuesProtocol,
        "_body",
        ("codec.compare_modified(receipt, put.expected), *map", "*map"),
    ),
    _bug("guards are not compared", ValuesProtocol, "_body", (", *map(_compare_guard, _guards(put))]", "]")),
    _bug(
        "the version is not compared",
        ValuesProtocol,
        "_body",
        ("compare.append(codec.compare_modified(value,", "(codec.compare_modified(value,"),
    ),
    _bug("a settlement writes the value", ValuesProtocol, "_body", ("if not put.settles:", "if True:")),
    _bug(
        "a refusal is blamed on a guard that stands",
        ValuesProtocol,
        "_try",
        ("all(_guards_on(at, guard) for guard, at in guards)", "not _guards(put)"),
    ),
    _bug(
        "a refusal is never blamed on a guard",
        ValuesProtocol,
        "_try",
        ("all(_guards_on(at, guard) for guard, at in guards)", "True"),
    ),
    _bug(
        "a store that has gone back has written nothing",
        ValuesProtocol,
        "_try",
        ("0 if done else known", "known"),
    ),
    _bug(
        "what a store that has gone back refuses is a refusal",
        ValuesProtocol,
        "_try",
        ("0 if done else known", "0"),
    ),
    _bug(
        "what took the last room counts as refused",
        ValuesProtocol,
        "_refused_for_room",
        ("if version == put.expected:", "if True:"),
    ),
    _bug(
        "an error that does not say whether it was done is a refusal",
        ValuesProtocol,
        "_try",
        ("refused.__cause__.code in MAY_BE_DONE", "False"),
    ),
    _bug(
        "what a writer guards alone lands beside readers",
        protocol_values,
        "_compare_guard",
        ("if guard.unchanged:", "if False:"),
    ),
    _bug(
        "a guard that was rewritten is not blamed",
        protocol_values,
        "_guards_on",
        ("guard.unchanged and any", "False and any"),
    ),
    _bug(
        "receipts go, and the anchor stays as it was",
        ValuesProtocol,
        "_spend",
        ('codec.put(self._anchor, b"", self._lease), ', ""),
    ),
    _bug("receipts go though they were written since", ValuesProtocol, "_spend", (", *as_known]", "]")),
    _bug(
        "a first write does not compare the anchor",
        ValuesProtocol,
        "_body",
        ("compare.append(codec.compare_modified(self._anchor, anchored))", "pass"),
    ),
    _bug(
        "a first write that found the anchor put again was refused",
        ValuesProtocol,
        "_try",
        ("if anchor[0].modified != anchored:", "if False:"),
    ),
    _bug(
        "a receipt that is asked for goes",
        Receipts,
        "surplus",
        ("if key in asked", "if False"),
        tests=RECEIPTS,
    ),
    _bug(
        "receipts go too early", Receipts, "surplus", ("< MOST_KEPT + at_once", "< MOST_KEPT"), tests=RECEIPTS
    ),
    _bug("a value is watched for deletions alone", ValuesProtocol, "read", ("changes=True", "changes=False")),
    _bug("the events of a value name its key", ValuesProtocol, "read", (", queue=op.key", "")),
    _bug(
        "a change between a read and its watch is missed",
        AskingProtocol,
        "_watched",
        ("elif since > codec.revision(found):", "elif False:"),
    ),
    _bug(
        "receipts are swept with the tombstones",
        Layout,
        "tombstones",
        ("start + _NO_CONTENDER", "prefix_end(start)"),
        tests=LAYOUT,
    ),
    _bug(
        "what was sent counts as unsent (blocking)",
        Pipeline,
        "_fail",
        ("unsent=unsent", "unsent=True"),
        tests=WIRES,
    ),
    _bug(
        "what was not sent may have been done (blocking)",
        Pipeline,
        "send",
        ("unsent=self.talk is None", "unsent=False"),
        tests=WIRES,
    ),
    _bug(
        "what was sent counts as unsent (asyncio)",
        AsyncEtcdConnection,
        "_exchange",
        ("unsent=conn is None", "unsent=True"),
        tests=WIRES,
    ),
    _bug(
        "what was not sent may have been done (asyncio)",
        AsyncEtcdConnection,
        "_exchange",
        ("unsent=conn is None", "unsent=False"),
        tests=WIRES,
    ),
    _bug(
        "a call that never had its turn may have been done",
        AsyncEtcdConnection,
        "_posts",
        ("unsent=True", "unsent=False"),
        tests=LINE,
    ),
]
