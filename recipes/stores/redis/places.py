"""Where the servers are: which one to ask about a key, found without I/O of its own.

A place says what it wants to know as a generator over `Ask`, which is sent each reply, or the exception
that stands for it. Both transports drive the same generators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from redis.crc import key_slot
from redis.exceptions import AuthenticationError

from recipes._record import record
from recipes.errors import StoreDenied, StoreError, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.redis.access import Access
from recipes.stores.urls import written

__all__ = [
    "Address",
    "Ask",
    "Cluster",
    "Finding",
    "One",
    "Place",
    "Redirected",
    "Remap",
    "Sentinels",
    "place_of",
]

T = TypeVar("T")
Address = tuple[str, int]
Remap = Callable[[Address], Address]
"""Returns where a node is reached, by the address that the cluster knows it by."""
SLOTS = 16384


@record
class Ask:
    """Send one command to one server, on a connection of its own or one that is free.

    Attributes:
        address: Of the server.
        words: The command.
        access: How to log in there; None: as on the servers that have the keys.
    """

    address: Address
    words: tuple[str, ...]
    access: Access | None = None


Finding = Generator[Ask, Any, T]


@record
class Redirected:
    """What a node of a cluster says of a key that is elsewhere.

    Attributes:
        address: Where it is.
        once: For this request alone, which ``ASKING`` has to precede; the slot is being moved.
    """

    address: Address
    once: bool


class Place(ABC):
    """One server, the master that sentinels name, or the nodes of a cluster.

    Attributes:
        label: The servers that were named, for events and errors.
        servers: Their addresses.
    """

    def __init__(self, servers: Sequence[Address], label: str = "", *, store: str = "redis") -> None:
        self.servers = list(servers)
        self.label = label or ",".join(map(named, servers))
        self._store = f"{store}://{self.label}"

    @abstractmethod
    def server_of(self, key: str) -> Finding[Address]:
        """Return the server to ask about a key.

        Raises:
            StoreUnavailable: No server says.
            StoreRefused: There is no such master.
        """

    def known(self, key: str) -> Address | None:
        """Return the server to ask about a key; None if a server would have to say so first."""
        finding = self.server_of(key)
        try:
            next(finding)
        except StopIteration as found:
            address: Address = found.value
            return address
        except StoreError:
            return None
        finding.close()
        return None

    def masters(self) -> Finding[list[Address]]:
        """Return every server that has keys."""
        return [(yield from self.server_of(""))]

    def lost(self, address: Address) -> None:  # noqa: B027 - most places have nothing to note
        """Note that a server does not answer, or is no master any more."""

    def redirected(self, error: str, asked: Address) -> Redirected | None:
        """Return where the server that was asked says that a key is; None: its error says nothing of that."""
        return None

    def tag_of(self, address: Address) -> str:
        """Return a hash tag, with its braces, whose keys this server has; empty: it has all keys."""
        return ""


class One(Place):
    """One server."""

    def server_of(self, key: str) -> Finding[Address]:
        """Return it."""
        yield from ()
        return self.servers[0]


class Sentinels(Place):
    """The master that sentinels name; they are asked again when it was lost, for it changes.

    Args:
        servers: The sentinels.
        master: The name by which they know it.
        accesses: How to log in at a sentinel; the next is used where the last was not enough.
    """

    def __init__(self, servers: Sequence[Address], master: str, accesses: Sequence[Access]) -> None:
        label = f"{','.join(map(named, servers))}/{master}"
        super().__init__(servers, label, store="redis+sentinel")
        self._master = master
        self._accesses = accesses
        self._now: Address | None = None

    def lost(self, address: Address) -> None:
        """Have the sentinels asked: another server may be the master now.

        The one that named it comes last: cut off from the others with its master, it names that on and on.
        """
        if address == self._now:
            self._now = None
            self.servers = _rotated(self.servers)

    def server_of(self, key: str) -> Finding[Address]:
        """Return the master: the first that a sentinel names and that says itself that it is one."""
        now = self._now
        if now is not None:
            return now
        said, unknown = "no sentinel answers", 0
        found: Any = None
        servers = list(self.servers)
        for number, sentinel in enumerate(servers):
            for access in self._accesses:
                found = yield Ask(sentinel, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master), access)
                if not isinstance(found, AuthenticationError | StoreDenied):
                    break
            if isinstance(found, Exception):
                said = f"sentinel {named(sentinel)}: {_why(found)}"
                continue
            if found is None:
                said = f"sentinel {named(sentinel)} knows no master {self._master!r}"
                unknown += 1
                continue
            address = _text(found[0]), int(found[1])
            role = yield Ask(address, ("ROLE",))
            if isinstance(role, Exception):
                said, found = f"master {named(address)}: {_why(role)}", role
            elif _text(role[0]) != "master":
                said = f"{named(address)}, which sentinel {named(sentinel)} names, is a {_text(role[0])}"
            else:
                # Those that were of no use come last from now on, behind those that were not asked.
                self.servers = servers[number:] + servers[:number]
                self._now = address
                return address
        self.servers = _rotated(self.servers)
        if unknown == len(self.servers):
            raise StoreRefused(self._store, said)
        raise _failed(self._store, said, found)


class Cluster(Place):
    """The nodes of a cluster, by the slots of their keys; the map is read when wanted, and when wrong."""

    def __init__(self, servers: Sequence[Address], remap: Remap | None = None) -> None:
        super().__init__(servers, store="redis+cluster")
        self._remap = remap
        self._ranges: list[tuple[int, int, Address]] = []
        self._stale = True
        self._nodes = list(servers)  # all that are known, replicas too; the one to ask first comes first

    def server_of(self, key: str) -> Finding[Address]:
        """Return the master of the key's slot."""
        slot = key_slot(key.encode())
        if self._stale:
            yield from self._read()
        for first, last, address in self._ranges:
            if first <= slot <= last:
                return address
        self._stale = True
        raise StoreUnavailable(self._store, f"no node has slot {slot}", unsent=True)

    def masters(self) -> Finding[list[Address]]:
        """Return all nodes that have slots."""
        yield from self._read()
        return list(dict.fromkeys(address for _, _, address in self._ranges))

    def lost(self, address: Address) -> None:
        """Have the map read anew, from another node than the last time: another may have its slots now."""
        self._stale = True
        self._nodes = _rotated(self._nodes)

    def redirected(self, error: str, asked: Address) -> Redirected | None:
        """Return where ``MOVED`` and ``ASK`` lead."""
        kind, *rest = error.split(" ")
        if kind not in ("MOVED", "ASK") or len(rest) < 2:
            return None
        host, _, port = rest[1].rpartition(":")
        if kind == "MOVED":
            self._stale = True
        return Redirected(self._reached((host or asked[0], int(port))), once=kind == "ASK")

    def _reached(self, address: Address) -> Address:
        """Return where a node is reached that the cluster knows by this address."""
        return address if self._remap is None else self._remap(address)

    def tag_of(self, address: Address) -> str:
        """Return a tag whose slot the node has."""
        own = [(first, last) for first, last, of in self._ranges if of == address]
        tags = (f"{{{number}}}" for number in range(100 * SLOTS))
        return next((tag for tag in tags if _within(key_slot(tag.encode()), own)), "") if own else ""

    def _read(self) -> Finding[None]:
        """Read the map from a node that knows one."""
        said, found = "no node answers", None
        for node in list(self._nodes):
            found = yield Ask(node, ("CLUSTER", "SLOTS"))
            if isinstance(found, Exception) or not found:
                said = f"node {named(node)}: {_why(found) if found else 'it knows of no slots'}"
                continue
            ranges, nodes = [], [node]
            for first, last, *members in found:
                known = [(_text(host) or node[0], int(port)) for host, port, *_ in members]
                addresses = [*map(self._reached, known)]
                ranges.append((int(first), int(last), addresses[0]))
                nodes += addresses
            self._ranges, self._stale = ranges, False  # in this order: several threads may read
            self._nodes = list(dict.fromkeys([*nodes, *self.servers]))
            return
        self._nodes = _rotated(self._nodes)
        raise _failed(self._store, said, found)


def place_of(
    kind: str,
    servers: Sequence[Address],
    master: str = "",
    accesses: Sequence[Access] = (),
    remap: Remap | None = None,
) -> Place:
    """Return the place that a URL, or a client, names.

    Args:
        kind: What follows ``+`` in the scheme.
        servers: Their addresses.
        master: The name of the master, for Sentinel.
        accesses: How to log in at those that name it, likewise.
        remap: For a cluster; None: its nodes are reached where it says.
    """
    if kind == "sentinel":
        return Sentinels(servers, master, accesses)
    return Cluster(servers, remap) if kind else One(servers)


def named(address: Address) -> str:
    """Return an address as URLs have it."""
    return written(*address)


def _rotated(servers: list[Address]) -> list[Address]:
    """Return servers in the order in which to ask them next: the first may have taken all the time."""
    return [*servers[1:], servers[0]]


def _why(error: Exception) -> str:
    return str(getattr(error, "detail", error))


def _failed(store: str, said: str, error: object) -> StoreError:
    """Return what it means that the last server answered with this."""
    if isinstance(error, AuthenticationError | StoreDenied):
        return StoreDenied(store, said)
    kind = StoreUntrusted if isinstance(error, StoreUntrusted) else StoreUnavailable
    return kind(store, said, unsent=True)


def _within(slot: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= slot <= last for first, last in ranges)


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word or "")
