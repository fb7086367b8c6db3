"""Which other clients there are, and how one of each is made."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from integration import servers
from integration.fleet.building import curator_program, go_program
from integration.fleet.peers import Etcdctl, Peer, Program

__all__ = ["ETCD", "OURS", "ZOOKEEPER", "Kind", "start"]

OURS = ("Lock", "writer", "reader")
"""What of ours meets them: the lock, and the two sides of the read-write lock."""


@dataclass(frozen=True)
class Kind:
    """A kind of contender.

    Attributes:
        label: How the documentation calls it, in Markdown.
        program: What runs it.
        kind: What the program calls it.
        reader: It shares the lock with others of its like.
    """

    label: str
    program: str
    kind: str
    reader: bool = False

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


def start(program: str, server: servers.Server) -> Peer:
    """Start a contender of a kind.

    Raises:
        ServerUnavailable: What it is made with is not there.
    """
    match program:
        case "etcdctl":
            assert isinstance(server, servers.Etcd)
            return Etcdctl(server)
        case "go":
            return Program([*go_program("mutex"), server.address])
        case "curator":
            return Program([*curator_program("Fleet"), server.address])
        case "kazoo":
            return Program([sys.executable, "-m", "integration.fleet.kazoo_peer", server.address])
    raise AssertionError(f"{program} should be a program")
