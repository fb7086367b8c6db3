"""Random scripts for etcd: what the package's protocol asks, in every mixture.

Bodies are those of ``recipes.stores.etcd.codec``, with plain names: a key stands for itself below
the script's prefix, ``L0`` for a lease, ``@key`` for the create revision a reply last told of that
key (zero if none did), ``@@key`` for the revision at which it was last put.
"""

from __future__ import annotations

import random
from typing import Any

from integration.differential.script import Forget, Script, Step
from recipes._contract.connection import Batch
from recipes.stores.etcd.requests import Post, Watch

__all__ = ["CONNECTIONS", "etcd_script"]

CONNECTIONS = 3
KEYS = ("q/R-a", "q/R-b", "q/W-c", "q/e", "q", "r/f")
"""Six at most: from seven on, etcd 3.5 sorts keys of one revision in an order of its own; see README."""
VALUES = {"q": "~value/q"}
"""Keys whose events have a name of their own."""
RANGES = (
    ("q/", "q0"),
    ("q/", "q/R-"),
    ("q/R-", "q/R."),
    ("q/R.", "q0"),
    ("q", "s"),
    ("r0", "r/"),
    ("x/", "x0"),
)
LEASES = ("L0", "L1", "L2", "L3")
NEVER_GRANTED = "L9"
MAX_OPS = 128


class _Author:
    """Writes one script."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"etcd {seed}")
        self.boxes = 0

    def script(self) -> Script:
        steps = [Step(0, _grant(lease, "60")) for lease in LEASES[: self.rng.randint(2, 4)]]
        length = self.rng.randint(15, 40)
        while len(steps) < length:
            steps.append(Step(self.rng.randrange(CONNECTIONS), self.request()))
        return Script(self.seed, tuple(steps))

    def request(self) -> Any:
        kinds = {
            "txn": 54,
            "span": 8,
            "deleterange": 2,
            "watch": 14,
            "batch": 8,
            "forget": 3,
            "grant": 5,
            "keepalive": 4,
            "revoke": 4,
            "big": 0.3,
        }
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        return getattr(self, kind)()

    # Requests.

    def txn(self, *, writes: bool = True) -> Post:
        rng = self.rng
        compare = [self.comparison() for _ in range(rng.choices((0, 1, 2, 3), (3, 5, 2, 1))[0])]
        success = self.operations(rng.choices((0, 1, 2, 3, 4), (1, 6, 5, 2, 1))[0], writes=writes)
        failure = self.operations(rng.choices((0, 1, 2), (3, 5, 1))[0], writes=writes)
        return Post("/kv/txn", {"compare": compare, "success": success, "failure": failure})

    def span(self) -> Post:
        return Post("/kv/range", self.read())

    def deleterange(self) -> Post:
        return Post("/kv/deleterange", self.deleted(self.rng.choice(KEYS)))

    def big(self) -> Post:
        """At the most operations a transaction may have, or beyond it."""
        reads = [{"request_range": {"key": "q/e"}}] * (MAX_OPS + self.rng.randint(0, 1))
        return Post("/kv/txn", {"compare": [], "success": reads, "failure": []})

    def watch(self) -> Watch:
        if self.rng.random() < 0.7 or not self.boxes:
            self.boxes += 1
        mailbox: Any = f"m{self.rng.randint(max(1, self.boxes - 3), self.boxes)}"
        if self.rng.random() < 0.3:  # a queue
            start, end = self.rng.choice([(start, end) for start, end in RANGES if start < end])
            return Watch(start.encode(), mailbox, changes=True, end=end.encode(), queue=start)
        key = self.rng.choice(KEYS)
        changes = key in VALUES or self.rng.random() < 0.6
        return Watch(key.encode(), mailbox, changes=changes, queue=VALUES.get(key, ""))

    def batch(self) -> Batch:
        """Watches with reads, as a look is, or calls one after the other; see README."""
        if self.rng.random() < 0.6:
            watches = [self.watch() for _ in range(self.rng.randint(1, 2))]
            if len({(watch.key, watch.end, watch.mailbox) for watch in watches}) < len(watches):
                del watches[1:]  # a mailbox is not armed twice for one key in one batch; see README
            return Batch((*watches, *(self.span() for _ in range(self.rng.randint(1, 3)))))
        return Batch(
            tuple(
                self.rng.choice((self.txn, self.txn, self.span, self.keepalive))()
                for _ in range(self.rng.randint(2, 3))
            )
        )

    def forget(self) -> Forget:
        return Forget(f"m{self.rng.randint(1, max(1, self.boxes))}")

    def grant(self) -> Post:
        return _grant(self.rng.choice(LEASES), self.rng.choice(("1", "2", "5", "60", "9000000001")))

    def keepalive(self) -> Post:
        return Post("/lease/keepalive", {"ID": self.rng.choice((*LEASES, NEVER_GRANTED))})

    def revoke(self) -> Post:
        return Post("/lease/revoke", {"ID": self.rng.choice((*LEASES, NEVER_GRANTED))})

    # Parts of transactions.

    def comparison(self) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.25:
            start, end = rng.choice(RANGES)
            wanted = rng.choice(("0", "0", "0", f"@{rng.choice(KEYS)}"))
            part = {"key": start, "range_end": end}
        else:
            key = rng.choice(KEYS)
            wanted = rng.choice(("0", "0", f"@{key}", f"@{key}", f"@{rng.choice(KEYS)}"))
            part = {"key": key}
            if rng.random() < 0.2:
                version = rng.choice(("0", "1", "1", "2", "3"))
                return {**part, "target": "VERSION", "result": "EQUAL", "version": version}
            if rng.random() < 0.25:
                modified = rng.choice(("0", f"@@{key}", f"@@{key}", f"@{key}"))
                return {**part, "target": "MOD", "result": "EQUAL", "mod_revision": modified}
            if rng.random() < 0.3:
                result = rng.choice(("GREATER", "LESS"))
                return {**part, "target": "CREATE", "result": result, "create_revision": wanted}
        return {**part, "target": "CREATE", "result": "EQUAL", "create_revision": wanted}

    def operations(self, count: int, *, writes: bool) -> list[dict[str, Any]]:
        """Write operations; rarely two on one key, which etcd refuses."""
        keys = self.rng.choices(KEYS, k=count) if self.rng.random() < 0.03 else self.rng.sample(KEYS, count)
        return [self.operation(key, writes=writes) for key in keys]

    def operation(self, key: str, *, writes: bool) -> dict[str, Any]:
        chance = self.rng.random()
        if writes and chance < 0.5:
            return {"request_put": self.put(key)}
        if writes and chance < 0.6:
            return {"request_delete_range": self.deleted(key)}
        return {"request_range": self.read()}

    def deleted(self, key: str) -> dict[str, Any]:
        """One key, or at times a range."""
        if self.rng.random() < 0.8:
            return {"key": key}
        start, end = self.rng.choice(RANGES)
        return {"key": start, "range_end": end}

    def put(self, key: str) -> dict[str, Any]:
        rng = self.rng
        lease = rng.choices(("0", *LEASES, NEVER_GRANTED), (24, 24, 24, 5, 5, 1))[0]
        request = {"key": key, "value": rng.choice(("", "", "v1", "v2")), "lease": lease}
        return {**request, "prev_kv": True} if rng.random() < 0.3 else request

    def read(self) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.4:
            return {"key": rng.choice(KEYS)}
        start, end = rng.choice(RANGES)
        request = {"key": start, "range_end": end}
        if rng.random() < 0.6:
            request |= {"sort_order": rng.choice(("DESCEND", "DESCEND", "ASCEND")), "sort_target": "CREATE"}
        if rng.random() < 0.6:
            request["limit"] = str(rng.randint(1, 3))
        if rng.random() < 0.4:
            request["max_create_revision"] = f"@{rng.choice(KEYS)}-1"
        return request


def _grant(lease: str, ttl: str) -> Post:
    return Post("/lease/grant", {"TTL": ttl, "ID": lease})


def etcd_script(seed: int) -> Script:
    """Return the script that ``seed`` stands for."""
    return _Author(seed).script()
