"""Redis servers: one, a master with replicas, the same watched by sentinels, and a cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import redis

from integration.harness.cluster import Cluster
from integration.harness.process import Server, eventually, url_of
from integration.harness.throwaway import free_ports

__all__ = ["DOWN_MS", "Redis", "RedisCluster", "RedisReplicas", "RedisSentinels", "Sentinel"]

MASTER = "mymaster"
SLOTS = 16384
DOWN_MS = 500
"""For how long a server is silent before sentinels, or the other nodes of its cluster, take it for dead."""


class Redis(Server):
    """One Redis on loopback.

    Args:
        label: In errors.
        binary: The program.
        keeps: Whether what was answered is kept over a kill; else it is in memory alone.
        settings: More of its configuration.
    """

    scheme = "redis"
    options: Mapping[str, Any] = MappingProxyType({"restart_grace": 0})  # it starts a moment before its tests

    def __init__(
        self, label: str, binary: Path, *, keeps: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(label, *free_ports(1))
        self.binary = binary
        self.settings = {
            "bind": self.host,
            "port": str(self.port),
            "save": '""',
            "appendonly": "yes" if keeps else "no",
            **(settings or {}),
        }

    def command(self) -> Sequence[str]:
        return [str(self.binary), str(self.home / "redis.conf"), "--dir", str(self.home)]

    def prepare(self) -> None:
        """Write the configuration, unless the server has one; it rewrites that when its part changes."""
        file = self.home / "redis.conf"
        if not file.exists():
            file.write_text("".join(f"{name} {value}\n" for name, value in self.settings.items()))

    def healthy(self) -> bool:
        try:
            with self.client() as client:
                client.connection_pool.connection_kwargs["socket_timeout"] = 1
                return bool(client.ping())
        except (OSError, redis.RedisError):
            return False

    def version(self) -> str:
        return str(self.info("server")["redis_version"])

    client_options: Mapping[str, Any] = MappingProxyType({})
    """What a client of redis-py has to be told besides, to be a user with all rights."""

    def client(self, **more: Any) -> Any:
        """Return a client of redis-py with all rights; close it."""
        options = {"socket_timeout": 5, "socket_connect_timeout": 1, **self.client_options, **more}
        return redis.Redis(self.host, self.port, **options)

    def ask(self, *words: str | int) -> Any:
        """Return the answer to one command."""
        with self.client() as client:
            return client.execute_command(*words)

    def info(self, section: str) -> Any:
        """Return a section of what the server says of itself."""
        return self.ask("INFO", section)

    def contenders(self, prefix: str) -> tuple[str, ...]:
        """Return who stands in the queues below a prefix, as ``key/token``: those whose time is not over."""
        with self.client(decode_responses=True) as client:
            seconds, microseconds = client.time()
            now = seconds * 1000 + microseconds // 1000
            found = []
            for queue in client.scan_iter(f"{{{prefix}:*}}:queue", 1000):
                key = queue[1:].removesuffix("}:queue")
                standing = client.zrange(queue, 0, -1)
                known = client.hgetall(f"{{{key}}}:known")  # some may have gone meanwhile
                found += [f"{key}/{token}" for token in standing if int(known.get(f"d{token}", 0)) > now]
        return tuple(found)

    def watches(self) -> int:
        """Return how many contenders and queues are listened to, by how many sessions."""
        with self.client() as client:
            return sum(client.zcard(key) for key in client.scan_iter("*:watched", 1000))

    def sessions(self, prefix: str = "*") -> set[str]:
        """Return the sessions below a prefix, or all."""
        with self.client(decode_responses=True) as client:
            return set(client.scan_iter(f"{prefix}:~session:*", 1000))

    def clean(self, prefix: str) -> None:
        """Delete every key with the prefix."""
        with self.client() as client:
            for pattern in (f"{prefix}:*", f"{{{prefix}:*"):
                for key in client.scan_iter(pattern, 1000):
                    client.delete(key)

    @property
    def leads(self) -> bool:
        """Whether it says that it is a master."""
        return bool(self.ask("ROLE")[0] == b"master")

    def wait_granting(self) -> None:
        """Wait until clients with a `restart_grace` of 20 s are granted what they ask for."""
        assert eventually(lambda: self.info("server")["uptime_in_seconds"] > 21, 60), "it should stay up"

    def follow(self, master: Redis | None) -> None:
        """Be a replica of another, or of none."""
        self.ask("REPLICAOF", *(("NO", "ONE") if master is None else (master.host, master.port)))


class Sentinel(Redis):
    """One sentinel, which watches a master with others."""

    def __init__(
        self, label: str, binary: Path, master: Redis, quorum: int, *, down_ms: int = DOWN_MS
    ) -> None:
        super().__init__(label, binary)
        self._watched = (master.host, str(master.port))
        self._quorum = quorum
        self._down_ms = down_ms

    def command(self) -> Sequence[str]:
        return [*super().command(), "--sentinel"]

    def prepare(self) -> None:
        file = self.home / "redis.conf"
        if not file.exists():
            down_ms = self._down_ms
            of = {"down-after-milliseconds": down_ms, "failover-timeout": 3 * down_ms, "parallel-syncs": 2}
            lines = [f"bind {self.host}", f"port {self.port}"]
            lines.append(f"sentinel monitor {MASTER} {' '.join(self._watched)} {self._quorum}")
            lines += [f"sentinel {name} {MASTER} {value}" for name, value in of.items()]
            file.write_text("\n".join(lines) + "\n")

    def master(self) -> tuple[str, int]:
        """Return the address of the master as it knows it."""
        host, port = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        return host.decode(), int(port)

    @property
    def tilted(self) -> bool:
        """Whether it only looks on, as it does for half a minute after it found itself stopped."""
        try:
            return bool(self.info("sentinel")["sentinel_tilt"])
        except (OSError, redis.RedisError):  # it does not answer just now
            return True

    def sees(self, replicas: int, sentinels: int) -> bool:
        """Whether it knows so many replicas, and so many other sentinels, that are up."""
        both = (("REPLICAS", replicas), ("SENTINELS", sentinels))
        return all(len(self.ask("SENTINEL", what, MASTER)) == number for what, number in both)


class _Group(Cluster[Redis]):
    """Several servers with the same data, of which one leads."""

    options: Mapping[str, Any]
    """What a client has to be told besides the URL."""

    def start(self) -> Self:
        super().start()
        assert eventually(self.formed, 60), "the servers should have found each other"
        return self

    def leads(self, member: Redis) -> bool:
        return member.leads

    def client(self, **more: Any) -> Any:
        """Return a client of redis-py that reads and writes all keys; close it."""
        return self.leader().client(**more)

    @abstractmethod
    def formed(self) -> bool:
        """Whether all servers know each other, and replicas have what their masters have."""


class RedisReplicas(_Group):
    """A master and its replicas; a replica is promoted by hand, and the former master may go on serving."""

    def __init__(self, label: str, binary: Path, *, replicas: int = 1, keeps: bool = False) -> None:
        settings = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
        master = Redis(f"{label}-1", binary, keeps=keeps, settings=settings)
        settings |= {"replicaof": f"{master.host} {master.port}"}
        others = [
            Redis(f"{label}-{number}", binary, keeps=keeps, settings=settings)
            for number in range(2, 2 + replicas)
        ]
        super().__init__([master, *others])
        self.options = {"replicas": replicas}

    def formed(self) -> bool:
        return all(_follows(member) for member in self.others(self.leader()))

    def url(self, prefix: str = "") -> str:
        """Return the URL of the master."""
        return self.leader().url(prefix)

    def failover(self) -> Redis:
        """Promote a replica, and have all others follow it; return it."""
        former = self.leader()
        promoted, *others = self.others(former)
        promoted.follow(None)
        for one in (former, *others):
            one.follow(promoted)
        assert eventually(self.formed, 60), "the others should follow the new master"
        return promoted


class RedisSentinels(RedisReplicas):
    """A master with two replicas, watched by three sentinels, which promote a replica when it is silent."""

    scheme = "redis+sentinel"

    def __init__(
        self, label: str, binary: Path, *, replicas: int = 2, keeps: bool = False, down_ms: int = DOWN_MS
    ) -> None:
        super().__init__(label, binary, replicas=replicas, keeps=keeps)
        master = self.members[0]
        self.sentinels = [
            Sentinel(f"{label}-sentinel-{number}", binary, master, 2, down_ms=down_ms) for number in (1, 2, 3)
        ]

    def start(self) -> Self:
        for sentinel in self.sentinels:
            sentinel.resume()
        super().start()
        for sentinel in self.sentinels:
            sentinel.start()
        known = len(self.members) - 1, len(self.sentinels) - 1
        assert eventually(lambda: all(one.sees(*known) for one in self.sentinels), 60), (
            "sentinels should meet"
        )
        return self

    def url(self, prefix: str = "") -> str:
        """Return the URL that names every sentinel, and the master."""
        return url_of(self.scheme, [one.address for one in self.sentinels], f"{MASTER}/0/{prefix}")

    def failover(self) -> Redis:
        """Have the sentinels promote a replica while all is well; return it."""
        former = self.leader()
        self._wait_awake()
        self.sentinels[0].ask("SENTINEL", "FAILOVER", MASTER)
        return self.promoted(former)

    def promoted(self, former: Redis, within_s: float = 60) -> Redis:
        """Return the master that all sentinels know in place of ``former``, when they do.

        They have so long once none of them only looks on.
        """
        self._wait_awake()
        assert eventually(lambda: self._agreed() not in (None, former), within_s), (
            "there should be a new master"
        )
        found = self._agreed()
        assert found is not None, "sentinels should go on agreeing"
        return found

    def _wait_awake(self) -> None:
        running = [sentinel for sentinel in self.sentinels if sentinel.running]
        assert eventually(lambda: not any(one.tilted for one in running), 60), "sentinels should act"

    def _agreed(self) -> Redis | None:
        known = {sentinel.master() for sentinel in self.sentinels if sentinel.running}
        found = [one for one in self.members if known == {(one.host, one.port)} and one.running]
        return found[0] if found and self._leads(found[0]) else None

    def close(self) -> None:
        for sentinel in self.sentinels:
            sentinel.close()
        super().close()


class RedisCluster(_Group):
    """Three masters, each with a third of the slots, and a replica of each: six nodes."""

    scheme = "redis+cluster"

    def __init__(
        self, label: str, binary: Path, *, masters: int = 3, keeps: bool = False, down_ms: int = DOWN_MS
    ) -> None:
        self._masters = masters
        members = []
        for number in range(1, 2 * masters + 1):
            settings = {
                "cluster-enabled": "yes",
                "cluster-node-timeout": str(down_ms),
                "cluster-port": str(*free_ports(1)),
                "repl-diskless-sync-delay": "0",
                "repl-ping-replica-period": "1",
            }
            members.append(Redis(f"{label}-{number}", binary, keeps=keeps, settings=settings))
        super().__init__(members)
        self.options = {"replicas": 1}

    def start(self) -> Self:
        fresh = not (self.members[0].home / "nodes.conf").exists()
        for member in self.members:
            member.resume()
            member.start()
        if fresh:
            self._form()
        return super().start()

    def _form(self) -> None:
        first, *others = self.members
        for epoch, member in enumerate(self.members, 1):
            member.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        masters, replicas = self.members[: self._masters], self.members[self._masters :]
        bounds = [SLOTS * number // self._masters for number in range(self._masters + 1)]
        for master, (start, end) in zip(masters, pairwise(bounds), strict=True):
            master.ask("CLUSTER", "ADDSLOTSRANGE", start, end - 1)
        for member in others:
            member.ask("CLUSTER", "MEET", first.host, first.port, first.settings["cluster-port"])
        everyone = {self.id_of(member) for member in self.members}
        assert eventually(lambda: all(set(self.nodes(one)) == everyone for one in self.members), 60)
        for master, replica in zip(masters, replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", self.id_of(master))

    def formed(self) -> bool:
        replicas = [member for member in self.members if not member.leads]
        served = all(self._state(member) == "ok" for member in self.members)
        return served and len(replicas) == self._masters and all(map(_follows, replicas))

    def client(self, **more: Any) -> Any:
        """Return a client of redis-py that reads and writes all keys; close it."""
        return redis.RedisCluster(self.members[0].host, self.members[0].port, **more)

    def id_of(self, member: Redis) -> str:
        """Return the id of a node."""
        return str(member.ask("CLUSTER", "MYID").decode())

    def nodes(self, member: Redis) -> dict[str, Any]:
        """Return the nodes that a node knows, by id, without those that it has not met yet."""
        found: dict[str, Any] = member.ask("CLUSTER NODES")
        return {one["node_id"]: one for one in found.values() if "handshake" not in one["flags"]}

    def _state(self, member: Redis) -> str:
        return str(member.ask("CLUSTER INFO")["cluster_state"])

    def master_of(self, key: str) -> Redis:
        """Return the node that has a key."""
        up = [member for member in self.members if member.running]
        slot = up[0].ask("CLUSTER", "KEYSLOT", key)
        for member in up:
            for start, end in [(int(a), int(b)) for a, b in self._slots(member)]:
                if start <= slot <= end:
                    return member
        raise AssertionError(f"a master should have slot {slot}")

    def _slots(self, member: Redis) -> list[list[str]]:
        return [[ends[0], ends[-1]] for ends in self.nodes(member)[self.id_of(member)]["slots"]]

    def move(self, key: str) -> None:
        """Have another master have the slot of a key, with all that is in it."""
        former = self.master_of(key)
        other = next(one for one in self.members if one.running and one.leads and one is not former)
        slot = former.ask("CLUSTER", "KEYSLOT", key)
        other.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(former))
        former.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(other))
        for moved in former.ask("CLUSTER", "GETKEYSINSLOT", slot, SLOTS):
            former.ask("MIGRATE", other.host, other.port, moved, 0, 5000)
        for member in (other, former, *(one for one in self.members if one.running and one.leads)):
            member.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(other))

    def failover(self, former: Redis | None = None) -> Redis:
        """Have the replica of a master take over while all is well; return it."""
        former = former or next(member for member in self.members if member.leads)
        replica = self.replica_of(former)
        replica.ask("CLUSTER", "FAILOVER")
        assert eventually(lambda: replica.leads and self.formed(), 60), "the replica should lead"
        return replica

    def replica_of(self, master: Redis) -> Redis:
        """Return the node that replicates another."""
        of = self.id_of(master)
        for member in self.others(master):
            if member.running and self.nodes(member)[self.id_of(member)]["master_id"] == of:
                return member
        raise AssertionError("each master should have a replica")


def _follows(replica: Redis) -> bool:
    said = replica.info("replication")
    return bool(said["role"] == "slave" and said["master_link_status"] == "up")
