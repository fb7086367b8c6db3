"""Real servers as the contract suite sees them: what is really there, and an operator's hands on it."""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any

import sqlalchemy
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from sqlalchemy.pool import NullPool

from integration import servers
from integration.proxy import Proxy
from recipes._contract.names import encode
from recipes._contract.operations import Ticket
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores.redis.keys import Keys
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.carrying import carry_out
from recipes.stores.sql.protocol import OBSERVE_S
from recipes.stores.sql.requests import Act, Work
from recipes.stores.sql.settings import BELL
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import PREFIX, Tables
from tests.contract.stores import Line, Store, queue_of
from tests.contract.tap import Tap

__all__ = [
    "EtcdStore",
    "MariaDbStore",
    "RedisGroupStore",
    "RedisStore",
    "ServerStore",
    "SqlStore",
    "ZooKeeperNameStore",
    "ZooKeeperStore",
    "engine_of",
    "make_tables",
    "store_on",
]

FOREIGN = "6f1d5e0c"
SCRIPT = (files("recipes.stores.redis") / "queue.lua").read_text()


class ServerStore(Store):
    """A prefix on a real server; a frail client goes through a proxy of its own."""

    def __init__(self, server: servers.Server, prefix: str) -> None:
        self.server = server
        self.options = server.options
        self.mark = self.prefix = prefix
        self.open = contextlib.ExitStack()

    def url(self) -> str:
        return self.server.url(self.prefix)

    def below(self, name: str) -> str:
        return self.server.url(f"{self.prefix}/{encode(name)}")

    def line(self, tap: Tap) -> Line:
        proxy = self.open.enter_context(Proxy.of(self.server))
        return Line(proxy.url(self.prefix), proxy.blackhole, proxy.cut, proxy.heal)

    def close(self) -> None:
        """End the proxies, and wipe the prefix."""
        self.open.close()
        servers.clean(self.server, self.prefix)


class EtcdStore(ServerStore):
    """A prefix on etcd."""

    server: servers.Etcd

    def contenders(self, name: str) -> list[str]:
        return self.server.keys(f"{self.prefix}/{queue_of(name)}/")

    def everything(self) -> list[str]:
        return self.server.keys(f"{self.prefix}/")

    def sessions(self) -> set[str]:
        return servers.sessions(self.server)

    def receipts(self) -> list[str]:
        return [key for key in self.server.keys(f"~session/{self.prefix}/") if "/~receipt/" in key]

    def remove(self, contender: str) -> None:
        self.server.delete(contender)

    def plant(self, name: str, kind: str) -> str:
        key = f"{self.prefix}/{queue_of(name)}/"
        lease = "0"
        if kind == "foreign":  # Go's mutex, and etcdctl
            lease = self.server.grant(60)
            key += f"{int(lease):x}"
        elif kind == "orphan":
            key += f"W-{FOREIGN}-{uuid.uuid4()}"
        else:
            key += "no / layout"
        self.server.put(key, lease=lease)
        return key

    def forget_history(self) -> None:
        self.server.put(f"{self.prefix}/~something", "else")
        self.server.delete(f"{self.prefix}/~something")
        self.server.compact()

    def end_session(self, client: Any) -> None:
        self.server.revoke(str(int(client.session.id, 16)))


class ZooKeeperStore(ServerStore):
    """A root on ZooKeeper."""

    server: servers.ZooKeeper
    malformed_blocks = False
    lands_late = False  # what a session sent on a connection that is gone is refused
    short_s = 10.0  # its server counts in ticks, and the client gives a silent connection up after two thirds

    def __init__(self, server: servers.Server, prefix: str) -> None:
        super().__init__(server, prefix)
        self._operator: KazooClient | None = None

    @property
    def operator(self) -> KazooClient:
        """A plain kazoo client."""
        if self._operator is None:
            self._operator = self.open.enter_context(servers.kazoo_client(self.server))
        return self._operator

    def contenders(self, name: str) -> list[str]:
        children = self._children(f"/{self.prefix}/{queue_of(name)}")
        return [one for one in children if "/~" not in one.removeprefix(f"/{self.prefix}/{queue_of(name)}")]

    def everything(self) -> list[str]:
        with contextlib.suppress(NoNodeError):
            nodes = self.operator.get_children(f"/{self.prefix}")
            return [path for node in nodes for path in self._children(f"/{self.prefix}/{node}")]
        return []

    def sessions(self) -> set[str]:
        assert self.operator.connected, "its session is one of them"
        return servers.sessions(self.server)

    def receipts(self) -> list[str]:
        nodes = [f"/{self.prefix}/~{recipe}" for recipe in ("value", "counter", "latch", "barrier")]
        values = [value for node in nodes for value in self._children(node)]
        return [child for value in values for child in self._children(value) if "/~" in child[len(value) :]]

    def remove(self, contender: str) -> None:
        with contextlib.suppress(NoNodeError):  # it left by itself
            self.operator.delete(contender)

    def remove_directory(self, name: str) -> None:
        self.operator.delete(f"/{self.prefix}/{queue_of(name)}")

    def plant(self, name: str, kind: str) -> str:
        node = f"/{self.prefix}/{encode(name)}"
        if kind == "foreign":  # kazoo's lock
            return self._create(f"{node}/{uuid.uuid4().hex}__lock__", ephemeral=True, sequence=True)
        if kind == "orphan":
            return self._create(f"{node}/_c_{uuid.uuid4()}-lock-", sequence=True)
        return self._create(f"{node}/no layout")

    def end_session(self, client: Any) -> None:
        connection = client._runtime.state.session.connection
        self.expire(getattr(connection, "inner", connection)._session._client)  # tapped, or not

    def expire(self, client: KazooClient) -> None:
        """Take the session of any client over, with its id and password, and close it.

        The client may take it back before it is closed: so once more, until the server knows it no more.
        """
        taken = session, _ = client._session_id, client._session_passwd  # connected or not
        assert session, "it has none that could end"
        is_known = True
        while is_known:
            thief = KazooClient(self.server.address, client_id=taken, **self.server.kazoo_options)
            try:
                thief.start(timeout=30)
            except KazooTimeoutError:  # the client took it back as this one connected, and kazoo gave up
                continue
            is_known = thief._session_id == session  # else it was given another session
            thief.stop()
            thief.close()

    def _create(self, path: str, **options: Any) -> str:
        return str(self.operator.create(path, b"", makepath=True, **options))

    def _children(self, node: str) -> list[str]:
        """Return the paths of all children, as they were created."""
        found = []
        with contextlib.suppress(NoNodeError):
            for child in self.operator.get_children(node):
                with contextlib.suppress(NoNodeError):
                    _, stat = self.operator.get(f"{node}/{child}")
                    found.append((stat.czxid, f"{node}/{child}"))
        return [path for _, path in sorted(found)]


class ZooKeeperNameStore(ZooKeeperStore):
    """A root where each lock is one ephemeral node; what shows it is its path, and its cell names it."""

    has_queue = hands_on = False
    foreign_can_join_while_held = False
    malformed_blocks = True
    options: Mapping[str, Any]

    def __init__(self, server: servers.Server, prefix: str) -> None:
        super().__init__(server, prefix)
        self.options = {**server.options, "layout": "name"}

    def contenders(self, name: str) -> list[str]:
        return [queue_of(name)] if self.operator.exists(self._node(queue_of(name))) else []

    def everything(self) -> list[str]:
        with contextlib.suppress(NoNodeError):
            queues = self.operator.get_children(f"/{self.prefix}")
            return [queue for queue in queues if self.operator.exists(self._node(queue))]
        return []

    def remove(self, contender: str) -> None:
        super().remove(self._node(contender))

    def plant(self, name: str, kind: str) -> str:
        try:
            self._create(self._node(encode(name)), ephemeral=kind == "foreign")
        except NodeExistsError:
            raise AssertionError("it excludes, and is excluded") from None
        return encode(name)

    def _node(self, queue: str) -> str:
        return f"/{self.prefix}/{queue}/lock"


class RedisStore(ServerStore):
    """A prefix on Redis; what it shows is read with redis-py, key by key."""

    server: servers.Redis | servers.RedisSentinels | servers.RedisCluster
    hands_on = False
    foreign_can_join_while_held = False
    strangers_have_tokens = False
    sessions_end_at_renewal = True
    restart_grace = 0  # the server started a moment ago

    def __init__(self, server: Any, prefix: str) -> None:
        super().__init__(server, prefix)
        self.options = {**server.options, "restart_grace": self.restart_grace}
        self.operator = self.open.enter_context(self.server.client(decode_responses=True))
        self._keys = Keys(f"{prefix}:")

    def below(self, name: str) -> str:
        return self.url()

    def contenders(self, name: str) -> list[str]:
        return [f"{queue_of(name)}/{token}" for token in self._tokens(queue_of(name))]

    def everything(self) -> list[str]:
        queues = sorted(map(self._keys.queue_of, self.operator.scan_iter(self._keys.queues, 1000)))
        return [f"{queue}/{token}" for queue in queues for token in self._tokens(queue)]

    def sessions(self) -> set[str]:
        start = self._keys.session("")
        return {key.removeprefix(start) for key in self.operator.scan_iter(f"{start}*", 1000)}

    def receipts(self) -> list[str]:
        return list(self.operator.scan_iter(f"*{self.prefix}*:receipt:*", 1000, _type="HASH"))

    def remove(self, contender: str) -> None:
        queue, _, token = contender.rpartition("/")
        if token.startswith("-"):
            self.operator.delete(self._keys.base(queue))
        else:
            self._act(queue, "expel", token, keys=(self._keys.beside(queue, f"x:{uuid.uuid4()}"),))

    def remove_directory(self, name: str) -> None:
        self.operator.delete(*self._keys.of(queue_of(name)))

    def plant(self, name: str, kind: str) -> str:
        queue = encode(name)
        key = self._keys.base(queue)
        if kind == "foreign":  # redis-py's lock, and all that set the key if there is none
            assert self.operator.set(key, uuid.uuid4().hex, nx=True, px=60_000), (
                "it excludes, and is excluded"
            )
        elif kind == "malformed":
            self.operator.hset(key, "no", "layout")
        else:
            attempt = str(uuid.uuid4())
            buried = self._keys.beside(queue, f"x:{attempt}")
            self._act(queue, "join", attempt, "W", "", "", 0, 1, 0, "", "", keys=(buried,))
        return max(self.contenders(name), key=lambda ref: abs(int(ref.rpartition("/")[2])))

    def end_session(self, client: Any) -> None:
        session = client.session.id
        self.operator.delete(self._keys.session(session))
        for contender in self.everything():
            queue, _, token = contender.rpartition("/")
            record = None if token.startswith("-") else self._known(queue, token)
            if record and record.startswith(f"{session} "):
                self.remove(contender)

    def close(self) -> None:
        """End the proxies, and delete every key with the prefix."""
        for key in self.operator.scan_iter(f"*{self.prefix}*", 1000):
            self.operator.delete(key)
        self.open.close()

    def _known(self, queue: str, field: str) -> Any:
        return self.operator.hget(self._keys.beside(queue, "known"), field)

    def _tokens(self, queue: str) -> list[str]:
        """Return whose time is not over, in order of arrival, behind another program that holds the key."""
        now = time.time() * 1000  # that of the servers, which are on this machine
        tokens = self.operator.zrange(self._keys.beside(queue, "queue"), 0, -1)
        mine = [token for token in tokens if int(self._known(queue, f"d{token}") or 0) > now]
        return [*self._stranger(queue), *mine]

    def _stranger(self, queue: str) -> list[str]:
        key = self._keys.base(queue)
        kind = self.operator.type(key)
        if kind == "none":
            return []
        said = self.operator.get(key) if kind == "string" else f"a {kind}"
        if said == self._known(queue, "held"):
            return []
        return [str(-int(hashlib.sha1(said.encode()).hexdigest()[:12], 16))]

    def _act(self, queue: str, act: str, *words: Any, keys: tuple[str, ...] = ()) -> None:
        """Run one act of the script in the name of a session that there is not."""
        keys = (*self._keys.of(queue), *keys)
        self.operator.eval(
            SCRIPT, len(keys), *keys, 0, act, queue, "another", self._keys.bell, 60_000, *words
        )


class RedisGroupStore(RedisStore):
    """The same on the master that sentinels name, and on a cluster; to be reached by no proxy."""

    server: servers.RedisSentinels | servers.RedisCluster
    restart_grace = 60  # the longest session of a test

    def __init__(self, server: Any, prefix: str) -> None:
        super().__init__(server, prefix)
        if "{" in prefix:  # a hash tag is no part of a URL
            self.options = {**self.options, "prefix": f"{prefix}:"}

    def url(self) -> str:
        return self.server.url("" if "prefix" in self.options else self.prefix)

    def line(self, tap: Tap) -> Line:
        return Store.line(self, tap)


class SqlStore(ServerStore):
    """A root in a database; what it shows is asked for in SQL, and changed by the acts of other sessions."""

    server: servers.Database
    has_foreign = False  # nobody else's layout is there
    tables = "contract_"
    restart_grace = 60  # the longest session of a test; clients that disagree have other tables
    spare_threads = 12  # of two clients, each of which has one for joins and for the rest, and up to four
    shows_first = True  # it is the commit that notifies, by another connection

    def __init__(self, server: Any, prefix: str) -> None:
        super().__init__(server, prefix)
        self.options = {**server.options, "tables": self.tables, "restart_grace": self.restart_grace}
        make_tables(server, self.tables)

    def below(self, name: str) -> str:
        return self.url()

    def contenders(self, name: str) -> list[str]:
        start = f"{queue_of(name)}/"
        return [contender for contender in self.everything() if contender.startswith(start)]

    def everything(self) -> list[str]:
        found = self.server.contenders(self.prefix, tables=self.tables)
        return [contender.removeprefix(f"{self.prefix}:") for contender in found]

    def sessions(self) -> set[str]:
        return self.server.sessions(tables=self.tables)

    def receipts(self) -> list[str]:
        found = self.server.ask(f"SELECT name, session FROM {self.tables}receipt")
        return [f"{name} of {session}" for name, session in found if name.startswith(f"{self.prefix}:")]

    def remove(self, contender: str) -> None:
        queue, _, token = contender.rpartition("/")
        self._act("operator", lambda acts: partial(acts.expel, queue=queue, token=int(token)))

    def remove_directory(self, name: str) -> None:
        key = f"{self.prefix}:{queue_of(name)}"
        self.server.ask(f"DELETE FROM {self.tables}queue WHERE name = %s", key)

    def plant(self, name: str, kind: str) -> str:
        queue, session = encode(name), uuid.uuid4().hex
        ticket = Ticket(queue, "W" if kind == "orphan" else kind, str(uuid.uuid4()))
        self._act(session, lambda acts: partial(acts.open, ttl_us=60_000_000))
        joined = self._act(session, lambda acts: partial(acts.join, ticket=ticket, rule=EXCLUSIVE))
        return str(joined.mine.ref)

    def end_session(self, client: Any) -> None:
        self._act(client.session.id, lambda acts: acts.end)

    def close(self) -> None:
        """End the proxies, and delete what is in the root."""
        self.open.close()
        self.server.clean(self.prefix, tables=self.tables)

    def _act(self, session: str, act: Callable[[Acts], Act[Any]]) -> Any:
        """Carry out an act of any session."""
        engine = engine_of(self.server)
        statements = Statements(Tables(self.tables), engine.dialect.name)
        with engine.connect() as connection:
            return carry_out(connection, act(Acts(statements, self.prefix, BELL, session)), Work())


class MariaDbStore(SqlStore):
    """The same where the server notifies nobody."""

    polls_every_s = OBSERVE_S


_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


def engine_of(server: servers.Database) -> sqlalchemy.Engine:
    """Return an engine for the database of the tests, which keeps no connection."""
    return _engine(server.url().replace(server.scheme, _DRIVERS[server.scheme], 1))


@cache
def _engine(place: str) -> sqlalchemy.Engine:
    plain = {"ssl_disabled": True} if place.startswith("mysql") else {}  # as the harness connects
    return sqlalchemy.create_engine(
        place, poolclass=NullPool, isolation_level="READ COMMITTED", connect_args=plain
    )


def make_tables(server: servers.Database, prefix: str = PREFIX) -> None:
    """Make the tables of one prefix, unless they are there; they are those of the user of the tests."""
    with engine_of(server).begin() as connection:
        for statement in _ddl(prefix, server.scheme):
            connection.execute(sqlalchemy.text(statement))


@cache
def _ddl(prefix: str, scheme: str) -> tuple[str, ...]:
    return tuple(Tables(prefix).ddl(scheme))


STORES: dict[type[servers.Server], type[ServerStore]] = {
    servers.Etcd: EtcdStore,
    servers.ZooKeeper: ZooKeeperStore,
    servers.Redis: RedisStore,
    servers.Postgres: SqlStore,
    servers.MariaDb: MariaDbStore,
}


def store_on(server: servers.Server, prefix: str) -> ServerStore:
    """Return the store of a kind of server."""
    return next(store for kind, store in STORES.items() if isinstance(server, kind))(server, prefix)
