"""What each store promises, so that a program can say what it needs and be refused before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from recipes.errors import TooWeak

__all__ = ["CELL", "STORES", "Guarantees", "Need", "like", "one_holder", "require"]

Need = Literal[
    "fencing",
    "linearizable",
    "durable",
    "many_processes",
    "many_machines",
    "fair",
    "shared",
    "proven",
    "values",
]
"""What ``connect(..., require=...)`` may ask for."""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a store promises; the same for every client of that kind of store, with the same options.

    Attributes:
        linearizable: What was granted or released is seen by every request that is asked
            later, whichever client asks.
        fencing: Grants carry tokens that rise from holder to holder.
        scope: What can share a lock: the threads and tasks of one "process", the processes
            of one "machine", or the machines of a "cluster".
        durable: Tokens go on rising after everything was switched off and on again, if what
            the store writes to keeps it: a file on tmpfs is gone.
        order: Whether those that wait are granted in order of "arrival", or in "none".
        shared: Whether several may hold together, as readers do.
        proven: Whether `Grant.held` is vouched for by a clock: while it is true, nobody else was granted.
        values: Whether it keeps values beside queues, and counts each write once.
        survives: What may fail without a promise being broken.
        timeout: What a session's timeout means: when the lock of a dead holder is free.
    """

    linearizable: bool
    fencing: bool
    scope: Literal["process", "machine", "cluster"]
    durable: bool
    order: Literal["arrival", "none"]
    shared: bool
    proven: bool
    values: bool
    survives: str
    timeout: str

    def meets(self, need: Need) -> bool:
        """Whether the store gives this.

        Args:
            need: As ``connect(require=...)`` takes it.

        Raises:
            ValueError: There is no such need.
        """
        if need not in get_args(Need):
            raise _no_need("need", need)
        match need:
            case "many_processes":
                return self.scope != "process"
            case "many_machines":
                return self.scope == "cluster"
            case "fair":
                return self.order == "arrival"
            case "fencing" | "linearizable" | "durable" | "shared" | "proven" | "values":
                found: bool = getattr(self, need)
                return found


_SQL_SURVIVES = (
    "the death of any client, a restart and a kill of the server; after a failover nothing is granted for"
    " restart_grace, but one that loses commits, with the old primary alive, may let a second holder in,"
    " with a larger token"
)

STORES: Mapping[str, Guarantees] = MappingProxyType(
    {
        "zookeeper": Guarantees(
            linearizable=True,
            fencing=True,
            scope="cluster",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives="the loss of a minority of the servers",
            timeout="the servers end the session up to a tick after it",
        ),
        "etcd": Guarantees(
            linearizable=True,
            fencing=True,
            scope="cluster",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives="the loss of a minority of the servers",
            timeout="the servers end the lease about a second after it, later after a change of leader",
        ),
        "postgresql": Guarantees(
            linearizable=True,
            fencing=True,
            scope="cluster",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives=_SQL_SURVIVES,
            timeout="by the server's wall clock: a jump forward frees early",
        ),
        "mysql": Guarantees(
            linearizable=True,
            fencing=True,
            scope="cluster",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives=_SQL_SURVIVES,
            timeout="by the server's wall clock: a jump forward frees early",
        ),
        "redis": Guarantees(
            linearizable=False,
            fencing=True,
            scope="cluster",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives="the death of any client, and a restart, after which nothing is granted for"
            " restart_grace; a failover, FLUSHALL or eviction may let a second holder in,"
            " with a larger token",
            timeout="by the server's wall clock: a jump forward frees early",
        ),
        "redlock": Guarantees(
            linearizable=False,
            fencing=True,
            scope="cluster",
            durable=True,
            order="none",
            shared=False,
            proven=True,
            values=False,
            survives="the death of any client, and of a minority of the servers, each of which grants nothing"
            " for restart_grace after a restart; tokens rise while clocks differ by less than that; eviction"
            " on a majority may let a second holder in",
            timeout="by the servers' wall clocks: jumps forward free early",
        ),
        "memcached": Guarantees(
            linearizable=False,
            fencing=True,
            scope="cluster",
            durable=True,
            order="none",
            shared=False,
            proven=True,
            values=False,
            survives="the death of any client, and a restart, after which nothing is granted for"
            " restart_grace; after flush_all, eviction or the removal of a key by another program a second"
            " holder may be let in, with a larger token, as long as the server's clock is not set back over"
            " a restart",
            timeout="by the server's monotonic clock: up to three seconds after it",
        ),
        "sqlite": Guarantees(
            linearizable=True,
            fencing=True,
            scope="machine",
            durable=True,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives="the death of any process, a restart and a power cut; not the loss of the file",
            timeout="at most: the death of a process is seen within a second where the kernel shows it",
        ),
        "memory": Guarantees(
            linearizable=True,
            fencing=True,
            scope="process",
            durable=False,
            order="arrival",
            shared=True,
            proven=True,
            values=True,
            survives="nothing: it ends with its process",
            timeout="exact",
        ),
    }
)
"""Every store, by the scheme of its URLs, the strongest first; ``etcds`` is as ``etcd``, and ``mariadb`` as
``mysql``.

What ``redis`` survives is said for one server with the options as they are by default: with ``replicas`` it
survives a failover too, and without ``restart_grace`` not even a restart. `Client.guarantees` says it for
the options that were given. ``memcached`` is "proven" if the server was started with ``-M``, ``redis`` and
``redlock`` if the ``maxmemory-policy`` of each server is ``noeviction``, which is known once a client is
connected: otherwise a server forgets locks when its memory is used up.
"""

_ALSO = {
    **dict.fromkeys(("zookeepers",), "zookeeper"),
    **dict.fromkeys(("etcds", "etcd+grpc", "etcds+grpc"), "etcd"),
    **dict.fromkeys(("postgresql+psycopg", "postgresql+asyncpg"), "postgresql"),
    **dict.fromkeys(("mysql+pymysql", "mysql+asyncmy"), "mysql"),
    **dict.fromkeys(("mariadb", "mariadb+pymysql", "mariadb+asyncmy"), "mysql"),
    **dict.fromkeys(("rediss", "redis+sentinel", "rediss+sentinel"), "redis"),
    **dict.fromkeys(("redis+cluster", "rediss+cluster"), "redis"),
}
"""Which store each other scheme of a URL is of: by TLS, with a driver, or with several servers."""

CELL = Guarantees(
    linearizable=True,
    fencing=True,
    scope="process",
    durable=False,
    order="none",
    shared=False,
    proven=True,
    values=False,
    survives="nothing: it ends with its process",
    timeout="exact",
)
"""What a store promises that keeps one holder of each name, and no queue; the one in memory, for tests."""


def one_holder(given: Guarantees) -> Guarantees:
    """Return what a store promises with a layout that keeps one holder of each name, and no queue.

    Args:
        given: What it promises with its usual layout.
    """
    return replace(given, order="none", shared=False, values=False)


def like(store: str) -> Guarantees:
    """Return what a store promises.

    Args:
        store: A scheme of its URLs, any that `connect` takes; or "cell" for `CELL`.

    Raises:
        ValueError: There is no such store.
    """
    given = CELL if store == "cell" else STORES.get(_ALSO.get(store, store))
    if given is None:
        raise ValueError(f"like={store!r}: use {', '.join(map(repr, [*STORES, *_ALSO, 'cell']))}")
    return given


def _no_need(what: str, need: str) -> ValueError:
    return ValueError(f"{what}={need!r}: use {', '.join(map(repr, get_args(Need)))}")


def require(needs: Need | Iterable[Need], given: Guarantees, store: str) -> tuple[Need, ...]:
    """Refuse a store that does not give what is needed; returns what that is.

    Args:
        needs: One or several.
        given: What the store promises.
        store: Which one, for the error.

    Raises:
        TooWeak: It does not.
        ValueError: Nobody knows such a need.
        TypeError: It is no text, and no set or list of texts.
    """
    wanted = _checked(needs)
    missing = [need for need in wanted if not given.meets(need)]
    if missing:
        own = store.partition(":")[0].partition("+")[0]
        others = [
            scheme
            for scheme, other in STORES.items()
            if scheme != own and all(other.meets(need) for need in wanted)
        ]
        raise TooWeak(store, tuple(missing), tuple(f"{scheme}://" for scheme in others))
    return tuple(wanted)


def _checked(needs: Need | Iterable[Need]) -> list[Need]:
    if not isinstance(needs, Iterable):
        raise TypeError(f"require= is a need or a set of needs, not {type(needs).__name__}")
    wanted: list[Need] = [needs] if isinstance(needs, str) else list(needs)
    for need in wanted:
        if not isinstance(need, str):
            raise TypeError(f"require= names what is needed as text, not {type(need).__name__}")
        if need not in get_args(Need):
            raise _no_need("require", need)
    return wanted
