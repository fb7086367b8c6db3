"""Gates for resources of your own: what refuses the write of a holder that comes too late.

::

    gate = fencing.SqlGate("fences")
    with client.lock("reports") as grant, database:     # a transaction
        gate.admit(database, "reports", grant)          # StaleToken if a later holder was here
        database.execute("UPDATE report SET ...")

No lock can stop a process that was paused while it held it, and goes on afterwards. The
resource can: it remembers the largest fencing token it has seen, and refuses smaller
ones, in the same atomic step as the write. Each gate here is one way to take that step.
"""

from __future__ import annotations

from recipes._rules.fence import Proof, Seen
from recipes.fencing.file import FileGate
from recipes.fencing.memory import MemoryGate
from recipes.fencing.redis import AsyncRedisGate, RedisGate
from recipes.fencing.sql import AsyncSqlGate, SqlGate

__all__ = [
    "AsyncRedisGate",
    "AsyncSqlGate",
    "FileGate",
    "MemoryGate",
    "Proof",
    "RedisGate",
    "Seen",
    "SqlGate",
]
