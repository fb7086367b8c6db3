"""What the suite needs to know of a store besides the package under test: what is really on it.

Everything here looks at, and meddles with, the store past the package: as an operator
would, or another client.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from recipes._contract.contenders import Contender
from recipes._contract.names import encode
from recipes.stores._kit.cell import SHORTEST_POLL_S
from recipes.stores.memory import MemoryBackend
from recipes.stores.memory_cell import CellServer
from recipes.stores.sqlite.schema import connect
from tests.contract.tap import Tap

SEMAPHORES = "~semaphore/"
ELECTIONS = "~election/"
GROUPS = "~group/"
BARRIERS = "~barrier/"
PLACES = (SEMAPHORES, ELECTIONS, GROUPS, BARRIERS)


def queue_of(name: str) -> str:
    """Return the encoded queue of a lock of this name, or of another recipe: ``~semaphore/<name>``."""
    place = next((one for one in PLACES if name.startswith(one)), "")
    return place + encode(name.removeprefix(place))


@dataclass(frozen=True)
class Line:
    """The way between one client and a store, and what can happen to it."""

    url: str
    silence: Callable[[], None]
    cut: Callable[[], None]
    heal: Callable[[], None]


class Store(ABC):
    """One place on one store that no other test uses.

    Attributes:
        mark: A part of the URL, and so of the label in events, that no other test's has.
        has_foreign: Other clients' layouts are told from this package's.
        foreign_can_join_while_held: Another client can queue behind a contender of this package's. Not where
            others know one key alone, that of the holder: they poll until it is gone.
        strangers_have_tokens: What another client has is a fencing token too. Not where its value is all that
            there is: it gets a number by which it can be evicted, and which is no order.
        sessions_end_at_renewal: That a session was ended shows when it is renewed, and not before: each
            contender has a lease of its own. A write that is repeated in between finds its receipt, and a
            contender that was removed can queue again, to lose what it is granted at the renewal.
        malformed_blocks: What is no contender of anybody's layout counts as one, and blocks.
        lands_late: A request can arrive after the next request of the same client.
        has_queue: Those that wait stand on it, behind each other. Else it keeps one holder of a name, and
            its grants come in no order.
        hands_on: The next of the same client holds from the moment of a release, before it is answered.
        shows_first: What has changed may be read before it is notified, by one that watched before and does
            so again: it is notified of that too.
        has_sessions: It knows of sessions, and what ends one ends all that is held in it at once.
        polls_every_s: How often a client looks by itself what it watches, of which the store tells nobody.
        short_s: How long a session has to be at least to outlast that a machine stands still for a moment.
        spare_threads: So many threads clients may come to have beside those of the first calls, where calls
            meet that did not before, each with a connection: a pool has its bound.
        spare_connections: So many connections two clients may keep idle once two calls of each have met: a
            renewal and a release.
        longest_name: So many characters a name can have that are one byte each.
        options: What a client has to be told besides the URL.
        prelude: Code that another process runs before it can connect.
    """

    mark: str
    options: Mapping[str, Any] = MappingProxyType({})
    malformed_blocks: ClassVar[bool] = True
    has_foreign: ClassVar[bool] = True
    foreign_can_join_while_held: ClassVar[bool] = True
    sessions_end_at_renewal: ClassVar[bool] = False
    strangers_have_tokens: ClassVar[bool] = True
    lands_late: ClassVar[bool] = True
    has_queue: ClassVar[bool] = True
    hands_on: ClassVar[bool] = True
    shows_first: ClassVar[bool] = False
    has_sessions: ClassVar[bool] = True
    polls_every_s: ClassVar[float] = math.inf
    short_s: ClassVar[float] = 0.0
    spare_threads: ClassVar[int] = 0
    spare_connections: ClassVar[int] = 4
    longest_name: int = 1024
    prelude: ClassVar[str] = ""

    @property
    def notifies(self) -> bool:
        """Whether it tells those that watch, each time and at once."""
        return self.polls_every_s == math.inf

    @abstractmethod
    def url(self) -> str:
        """Return the URL of the place."""

    def line(self, tap: Tap) -> Line:
        """Return a way for one client that can fail; ``tap`` is the client's."""
        return Line(self.url(), tap.silence, tap.silence, tap.heal)

    def below(self, name: str) -> str:
        """Return the URL of a root inside of this one, where a lock of that name has its contenders.

        Where there are no roots in roots: this one again.
        """
        return self.url()

    @abstractmethod
    def contenders(self, name: str) -> list[str]:
        """Return what really stands in the queue of a lock (see `queue_of`), first come first."""

    @abstractmethod
    def everything(self) -> list[str]:
        """Return all contenders of all locks of the place."""

    @abstractmethod
    def sessions(self) -> set[str]:
        """Return the sessions there are, maybe also those of other places on the same store."""

    @abstractmethod
    def receipts(self) -> list[str]:
        """Return the receipts of writes that there are, one for each session and value."""

    @abstractmethod
    def remove(self, contender: str) -> None:
        """Delete one contender, as an operator would."""

    @abstractmethod
    def plant(self, name: str, kind: str) -> str:
        """Add to the queue of a lock what is not of this package's making.

        ``foreign``: a contender of another client's layout, alive. ``orphan``: one of our
        layout that no session stands behind. ``malformed``: what nobody's layout knows.
        """

    @abstractmethod
    def end_session(self, client: Any) -> None:
        """End the session of a client behind its back."""

    def remove_directory(self, name: str) -> None:  # noqa: B027 - most stores keep none
        """Delete whatever directory the store keeps for a lock; nobody stands in it."""

    def forget_history(self) -> None:  # noqa: B027 - most stores keep none
        """Write something, and have the store forget all history it keeps."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class MemoryStore(Store):
    """A store in memory of its own."""

    def __init__(self) -> None:
        self.mark = f"t-{uuid.uuid4().hex}"
        self._server = MemoryBackend.named(self.mark).server

    def url(self) -> str:
        return f"memory://{self.mark}"

    def contenders(self, name: str) -> list[str]:
        prefix = f"{queue_of(name)}/"
        return [ref for ref in self.everything() if ref.startswith(prefix)]

    def everything(self) -> list[str]:
        return [contender.ref for contender in self._server.contenders()]

    def sessions(self) -> set[str]:
        self._server.contenders()  # which ends those whose time is up
        return set(self._server.sessions)

    def receipts(self) -> list[str]:
        return [f"{key} of {session}" for session, key in self._server.receipts]

    def remove(self, contender: str) -> None:
        self._server.remove(contender)

    def plant(self, name: str, kind: str) -> str:
        ref = f"{encode(name)}/{kind}"
        with self._server._lock:
            queue = self._server.queues.setdefault(encode(name), {})
            queue[ref] = Contender(ref, session="another", token=next(self._server._revision))
        return ref

    def end_session(self, client: Any) -> None:
        self._server.end(client.session.id)

    def remove_directory(self, name: str) -> None:
        with self._server._lock:
            self._server.queues.pop(encode(name), None)

    def close(self) -> None:
        MemoryBackend._shared.pop(self.mark, None)


class CellStore(Store):
    """A store without a queue: what follows from that, whichever it is."""

    has_queue = has_sessions = hands_on = False
    foreign_can_join_while_held = strangers_have_tokens = False
    sessions_end_at_renewal = True
    lands_late = False  # a take that lands when its call was given up is dropped by the next renewals
    polls_every_s = SHORTEST_POLL_S

    def sessions(self) -> set[str]:
        return set()

    def receipts(self) -> list[str]:
        return []


class MemoryCellStore(CellStore):
    """A cell store in memory of its own."""

    def __init__(self) -> None:
        self.mark = f"t-{uuid.uuid4().hex}"
        self._server = CellServer()
        MemoryBackend.register(self.mark, lambda: MemoryBackend(self._server, self.url()))

    def url(self) -> str:
        return f"memory://{self.mark}"

    def contenders(self, name: str) -> list[str]:
        return [one.ref for one in self._server.queue(queue_of(name))]

    def everything(self) -> list[str]:
        return [ref for ref in list(self._server.cells) if self._server.queue(ref)]

    def remove(self, contender: str) -> None:
        self._server.remove(contender)

    def plant(self, name: str, kind: str) -> str:
        assert not self.contenders(name), "a cell has room for one"
        self._server.write(encode(name), "another/orphan" if kind == "orphan" else kind, token=0)
        return encode(name)

    def end_session(self, client: Any) -> None:
        self._server.end(client.session.id)

    def close(self) -> None:
        MemoryBackend.register(self.mark, None)


class SqliteStore(Store):
    """A file of its own, in a directory of its own."""

    has_foreign = False  # nobody else's layout is there
    lands_late = False  # requests of one connection are carried out in order, or not at all

    def __init__(self) -> None:
        self.mark = f"t-{uuid.uuid4().hex}"
        in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where syncing takes no time
        self._folder = Path(tempfile.mkdtemp(prefix=self.mark, dir=in_memory))
        self.path = self._folder / "locks.db"

    def url(self) -> str:
        return f"sqlite://{self.path}"

    def _ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask as the command line of SQLite would, in a connection of its own."""
        if not self.path.exists():
            return []
        with contextlib.closing(sqlite3.connect(self.path, timeout=5)) as db, db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'watch'").fetchone():
                return []  # it is just being made
            return db.execute(sql, values).fetchall()

    def contenders(self, name: str) -> list[str]:
        found = self._ask(
            "SELECT queue || '/' || token FROM contender WHERE queue = ? ORDER BY token", queue_of(name)
        )
        return [ref for (ref,) in found]

    def everything(self) -> list[str]:
        return [ref for (ref,) in self._ask("SELECT queue || '/' || token FROM contender ORDER BY token")]

    def sessions(self) -> set[str]:
        return {session for (session,) in self._ask("SELECT id FROM session")}

    def receipts(self) -> list[str]:
        return [receipt for (receipt,) in self._ask("SELECT key || ' of ' || session FROM receipt")]

    def remove(self, contender: str) -> None:
        queue, _, token = contender.rpartition("/")
        self._ask("DELETE FROM contender WHERE queue = ? AND token = ?", queue, int(token))

    def plant(self, name: str, kind: str) -> str:
        connect(str(self.path), self.url(), lambda db: False).close()  # so that there is a file
        with contextlib.closing(sqlite3.connect(self.path, timeout=5)) as db, db:
            db.execute("UPDATE machine SET token = token + 1")
            (token,) = db.execute("SELECT token FROM machine").fetchone()
            row = (encode(name), token, str(uuid.uuid4()), "W" if kind == "orphan" else kind, "another")
            db.execute("INSERT INTO contender (queue, token, id, kind, session) VALUES (?, ?, ?, ?, ?)", row)
        return f"{encode(name)}/{token}"

    def end_session(self, client: Any) -> None:
        session = client.session.id
        with contextlib.closing(sqlite3.connect(self.path, timeout=5)) as db, db:
            db.execute("DELETE FROM contender WHERE session = ?", (session,))
            db.execute("DELETE FROM session WHERE id = ?", (session,))

    def close(self) -> None:
        # A session that was being started when its client closed may write one last time meanwhile.
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and self._folder.exists():
            shutil.rmtree(self._folder, ignore_errors=True)
        assert not self._folder.exists(), f"somebody still writes into {self._folder}"
