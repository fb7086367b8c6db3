"""Which other clients there are, and how one of each is made."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from integration import servers
from integration.fleet.building import curator_program, go_program
from integration.fleet.peers import Elect, Etcdctl, Peer, Program

__all__ = ["ELECTION", "ETCD", "ETCD_ELECTIONS", "OURS", "ZOOKEEPER", "ZOOKEEPER_ELECTIONS", "Kind", "start"]

OURS = ("Lock", "writer", "reader")
"""What of ours meets them: the lock, and the two sides of the read-write lock."""

ELECTION = "Election"
"""What of ours meets their elections."""


@dataclass(frozen=True)
class Kind:
    """A kind of contender.

    Attributes:
        label: How the documentation calls it, in Markdown.
        program: What runs it.
        kind: What the program calls it.
        reader: It shares the lock with others of its like.
        value: What it has to say, if it is a candidate.
    """

    label: str
    program: str
    kind: str
    reader: bool = False
    value: str = ""

    def __str__(self) -> str:
        return f"{self.program}-{self.kind}"


ETCD = (
    Kind("`etcdctl lock`", "etcdctl", "lock"),
    Kind("Go `concurrency.Mutex`", "go", "mutex"),
    Kind("Go `recipe.RWMutex`, `Lock`", "go", "write"),
    Kind("Go `recipe.RWMutex`, `RLock`", "go", "read", reader=True),
)

ZOOKEEPER = (
    Kind("Curator `InterProcessMutex`", "curator", "mutex"),
    Kind("Curator `InterProcessMutex` with `SharedLockDriver`", "curator", "shared", reader=True),
    Kind("Curator `InterProcessReadWriteLock.writeLock()`", "curator", "write"),
    Kind("Curator `InterProcessReadWriteLock.readLock()`", "curator", "read", reader=True),
    Kind("kazoo `Lock`", "kazoo", "lock"),
    Kind('kazoo `Lock`, `("-lock-",)`', "kazoo", "lock+"),
    Kind("kazoo `WriteLock`", "kazoo", "write"),
    Kind('kazoo `WriteLock`, `("-lock-",)`', "kazoo", "write+"),
    Kind("kazoo `ReadLock`", "kazoo", "read", reader=True),
    Kind('kazoo `ReadLock`, `("-lock-",)`', "kazoo", "read+", reader=True),
    Kind('kazoo `ReadLock`, `("(?<!-R)-lock-",)`', "kazoo", "read+exclusive", reader=True),
)

ETCD_ELECTIONS = (
    Kind("`etcdctl elect`", "etcdctl-elect", "elect", value="theirs"),
    Kind("Go `concurrency.Election`", "go", "election", value="theirs"),
)

ZOOKEEPER_ELECTIONS = (
    Kind("Curator `LeaderSelector`", "curator", "selector", value="theirs"),
    Kind("Curator `LeaderLatch`", "curator", "latch", value="theirs"),
    Kind("kazoo `Election`", "kazoo", "election", value="theirs"),
    Kind('kazoo `Election`, `("-lock-",)`', "kazoo", "election+", value="theirs"),
)


def start(program: str, server: servers.Server, *options: str) -> Peer:
    """Start a contender of a kind.

    Args:
        program: What runs it.
        server: What it connects to.
        options: What the program takes besides the address.

    Raises:
        ServerUnavailable: What it is made with is not there.
    """
    match program:
        case "etcdctl":
            assert isinstance(server, servers.Etcd)
            return Etcdctl(server)
        case "etcdctl-elect":
            assert isinstance(server, servers.Etcd)
            return Elect(server)
        case "go":
            return Program([*go_program("mutex"), server.address, *options])
        case "curator":
            return Program([*curator_program("Fleet"), server.address, *options])
        case "kazoo":
            return Program([sys.executable, "-m", "integration.fleet.kazoo_peer", server.address])
    raise AssertionError(f"{program} should be a program")
