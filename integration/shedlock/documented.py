"""What ShedLock does to its table with ``usingDbTime()``: the statements that it documents, on plain drivers.

The time is that of the statement's transaction, and each statement is a transaction.
"""

from __future__ import annotations

import contextlib
from typing import Any

from integration import servers
from integration.sql.places import by_cursor, plain

__all__ = ["HOST", "Service"]

HOST = "java-host-7"
NOW = {"postgresql": "timezone('utc', CURRENT_TIMESTAMP)", "mysql": "UTC_TIMESTAMP(3)"}
LATER = {
    "postgresql": f"{NOW['postgresql']} + make_interval(secs => %s)",
    "mysql": f"TIMESTAMPADD(MICROSECOND, 1000000 * %s, {NOW['mysql']})",
}
INSERT = {
    "postgresql": "INSERT INTO {} ON CONFLICT DO NOTHING",
    "mysql": "INSERT IGNORE INTO {}",
}


class Service:
    """A Java service with ShedLock.

    Args:
        server: Where its table is.
        owner: What it calls itself.
    """

    def __init__(self, server: servers.Database, owner: str = HOST) -> None:
        self.owner = owner
        kind = server.scheme
        self._now, self._later, self._insert = NOW[kind], LATER[kind], INSERT[kind]
        self._connection: Any = plain(server.url())
        if kind == "mysql":
            self._connection.autocommit(True)
        else:
            self._connection.autocommit = True
        self._run = by_cursor(self._connection)

    def _changed(self, text: str, *values: object) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute(text, values)
            return bool(cursor.rowcount)

    def lock(self, name: str, at_most_s: float = 60.0) -> bool:
        """Insert the row of a lock, or update it if it is over; whether it has the lock."""
        row = f"shedlock(name, lock_until, locked_at, locked_by) VALUES(%s, {self._later}, {self._now}, %s)"
        inserted = self._changed(self._insert.format(row), name, at_most_s, self.owner)
        return inserted or self._changed(
            f"UPDATE shedlock SET lock_until = {self._later}, locked_at = {self._now}, locked_by = %s"
            f" WHERE name = %s AND lock_until <= {self._now}",
            at_most_s,
            self.owner,
            name,
        )

    def extend(self, name: str, at_most_s: float) -> bool:
        """Extend a lock that it has; whether it has it."""
        return self._changed(
            f"UPDATE shedlock SET lock_until = {self._later}"
            f" WHERE name = %s AND locked_by = %s AND lock_until > {self._now}",
            at_most_s,
            name,
            self.owner,
        )

    def unlock(self, name: str) -> None:
        """Unlock."""
        self._changed(
            f"UPDATE shedlock SET lock_until = {self._now} WHERE name = %s AND locked_by = %s",
            name,
            self.owner,
        )

    def holders(self, *, root: str = "") -> dict[str, str]:
        """Return who holds, by the names of a root."""
        found = self._run(f"SELECT name, locked_by FROM shedlock WHERE lock_until > {self._now}")
        return {name: owner for name, owner in found if name.startswith(root)}

    def delete(self, name: str) -> bool:
        """Delete the row of a lock, as an operator; whether it was there."""
        return self._changed("DELETE FROM shedlock WHERE name = %s", name)

    def close(self) -> None:
        """Close its connection."""
        with contextlib.suppress(Exception):
            self._connection.close()
