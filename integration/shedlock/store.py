"""ShedLock's table in a database as the contract suite sees it: rows, read and written as ShedLock does."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

from integration import servers
from integration.proxy import Proxy
from integration.shedlock.documented import HOST, Service
from integration.stores import engine_of
from recipes import sql
from recipes._contract.names import encode
from recipes.stores.sql.protocol_shedlock import LONGEST_NAME, row_of
from tests.contract.stores import CellStore, Line, queue_of
from tests.contract.tap import Tap

__all__ = ["ShedlockStore"]


class ShedlockStore(CellStore):
    """A root in a database; a frail client goes through a proxy of its own."""

    spare_threads = 4  # where a look of one that waits and a try meet
    tables = "contract_"
    options: Mapping[str, Any] = {"layout": "shedlock", "tables": tables, "restart_grace": 60}

    def __init__(self, server: servers.Database, prefix: str) -> None:
        self.server, self.mark = server, prefix
        self.longest_name = LONGEST_NAME - len(prefix) - 1
        with engine_of(server).begin() as connection:
            for statement in sql.schema(server.scheme, self.tables, "shedlock"):
                connection.exec_driver_sql(statement)
        self._open = contextlib.ExitStack()
        self.operator = Service(server)
        self._open.callback(self.operator.close)

    def url(self) -> str:
        return self.server.url(self.mark)

    def line(self, tap: Tap) -> Line:
        proxy = self._open.enter_context(Proxy.of(self.server))
        return Line(proxy.url(self.mark), proxy.blackhole, proxy.cut, proxy.heal)

    def contenders(self, name: str) -> list[str]:
        return [one for one in self.everything() if one == queue_of(name)]

    def everything(self) -> list[str]:
        rows = [row.removeprefix(f"{self.mark}:") for row in self.operator.holders(root=f"{self.mark}:")]
        return [row if "%" in row else encode(row) for row in rows]

    def remove(self, contender: str) -> None:
        self.operator.delete(row_of(self.mark, contender))

    def plant(self, name: str, kind: str) -> str:
        self.operator.owner = f"another/{uuid.uuid4()}" if kind == "orphan" else kind or HOST
        assert self.operator.lock(row_of(self.mark, encode(name))), "it excludes, and is excluded"
        return encode(name)

    def end_session(self, client: Any) -> None:
        for row, owner in self.operator.holders(root=f"{self.mark}:").items():
            if owner.startswith(f"{client.session.id}/"):
                self.operator.delete(row)

    def close(self) -> None:
        """End the proxies, and delete what is left."""
        for row in self.operator.holders(root=f"{self.mark}:"):
            self.operator.delete(row)
        self._open.close()
