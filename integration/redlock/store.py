"""Five Redis as the contract suite sees them: what most of them have at a key is there."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from integration import servers
from integration.harness.process import url_of
from integration.proxy import Proxy
from recipes._contract.names import encode
from recipes.stores.redis.keys import Keys
from tests.contract.stores import CellStore, Line, queue_of
from tests.contract.tap import Tap

__all__ = ["RedlockStore", "url_to"]


def url_to(addressed: Iterable[servers.Redis | Proxy], prefix: str) -> str:
    """Return the URL by which a client has a vote of each of these."""
    return url_of("redlock", [one.address for one in addressed], f"0/{prefix}")


class RedlockStore(CellStore):
    """A prefix on several servers; a frail client goes to each through a proxy of its own."""

    options: Mapping[str, Any] = MappingProxyType({"restart_grace": 0})  # they started a moment ago
    spare_connections = 4 * 5  # as many with each server

    def __init__(self, five: Sequence[servers.Redis], prefix: str) -> None:
        self.servers = five
        self.mark = prefix
        self.keys = Keys(f"{prefix}:")
        self._open = contextlib.ExitStack()
        self.operators = [self._open.enter_context(one.client(decode_responses=True)) for one in five]

    def url(self) -> str:
        return url_to(self.servers, self.mark)

    def line(self, tap: Tap) -> Line:
        proxies = [self._open.enter_context(Proxy.of(one)) for one in self.servers]

        def each(what: str) -> Any:
            return lambda: [getattr(proxy, what)() for proxy in proxies]

        return Line(url_to(proxies, self.mark), each("blackhole"), each("cut"), each("heal"))

    def contenders(self, name: str) -> list[str]:
        return [queue_of(name)] if self.value(queue_of(name)) else []

    def everything(self) -> list[str]:
        start = self.keys.prefix
        found = {key for one in self.operators for key in one.scan_iter(f"{start}[^~]*", 1000)}
        queues = sorted(encode(key.removeprefix(start)) for key in found)
        return [queue for queue in queues if self.value(queue)]

    def remove(self, contender: str) -> None:
        for one in self.operators:
            one.delete(self.keys.base(contender))

    def plant(self, name: str, kind: str) -> str:
        queue = encode(name)
        key, value = self.keys.base(queue), f"another/{uuid.uuid4()}"
        if kind != "malformed":
            assert not self.value(queue), "it excludes, and is excluded"
            # Most may have let go of it just now, and the others are about to.
            assert servers.eventually(lambda: not any(one.exists(key) for one in self.operators), 5)
        for one in self.operators:
            if kind == "malformed":
                one.hset(key, "no", "layout")
            else:
                assert one.set(key, kind if kind == "foreign" else value, nx=True), (
                    "it excludes, and is excluded"
                )
        return queue

    def end_session(self, client: Any) -> None:
        for queue in self.everything():
            if self.value(queue).startswith(f"{client.session.id}/"):
                self.remove(queue)

    def close(self) -> None:
        """End the proxies, and delete what is left."""
        for one in self.servers:
            one.clean(self.mark)
        self._open.close()

    def value(self, queue: str) -> str:
        """Return what most servers have at the key of a lock; empty if there is no such."""
        key = self.keys.base(queue)
        kinds = [one.type(key) for one in self.operators]
        found = [
            one.get(key) if kind == "string" else kind
            for one, kind in zip(self.operators, kinds, strict=True)
        ]
        ((value, count),) = Counter(one for one in found).most_common(1)
        there = value not in (None, "none") and count > len(found) // 2
        return re.sub(r"#\d+$", "", str(value)) if there else ""  # the number of the take
