"""Bugs where other code of the process has closed a descriptor, and another is open under its number."""

from __future__ import annotations

from types import ModuleType

from recipes.stores.etcd.blocking_loan import Loan
from recipes.stores.etcd.blocking_reader import Reader, _Ears
from recipes.stores.etcd.pool import _Talk
from recipes.stores.sockets import Conn
from recipes.stores.sql import descriptors
from recipes.stores.zookeeper import handler_sockets
from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.handler_sockets import OwnSocket, Waker
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant

__all__ = ["TAKEN"]

WHERE = "descriptors that are another's"
POOL = "tests/stores/etcd/test_pool.py"
READER, SESSION, DRIVERS = (f"tests/stores/{store}/test_taken.py" for store in ("etcd", "zookeeper", "sql"))


def _bug(  # noqa: PLR0917 - a line each
    name: str, tests: str, owner: ModuleType | type, of: str, old: str, new: str = "if False:"
) -> TransportMutant:
    return TransportMutant(name, WHERE, tests, lambda: rewritten(owner, of, (old, new)))


TAKEN = [
    _bug("a connection that is another's is used again", POOL, Conn, "stale",
         "identity(fd) != self._kind or ", ""),
    _bug("a connection that is another's is read before it is used again", POOL, _Talk, "heard",
         "self.conn.receive_own()", "self.conn.receive_some()"),
    _bug("with TLS what is another's is read before it is waited for", READER, Conn, "receive",
         "self.receive_own()", "self.receive_some()"),
    _bug("a watch connection that is another's is written to", READER, Reader, "_flush", "if conn.taken:"),
    _bug("a caller reads what is another's", READER, Loan, "arrived", "if self.taken:"),
    _bug("a caller's bell is rung though it is another's", READER, Loan, "ring", "if self._own[0].taken:"),
    _bug("the thread is woken by what is another's", READER, _Ears, "wake",
         "if not self._own[0].taken:", "if True:"),
    _bug("what wakes the thread is read though it is another's", READER, _Ears, "woke",
         "self._own[1].taken or ", ""),
    _bug("a selector that is another's is closed", READER, _Ears, "close", "if self.taken:"),
    _bug("a thread that can wait for nothing sleeps on", READER, Reader, "_turn",
         "if ears.taken:  # what it has asked may be somebody else's selector"),
    _bug("the end of what wakes the thread is not seen", READER, _Ears, "woke",
         "or not self._woken.recv(4096)", "or (self._woken.recv(4096), False)[1]"),
    _bug("a thread that can wait for nothing spins", READER, Reader, "_run", "if ears.taken:"),
    _bug("what stands on another's descriptor is not given up", READER, Reader, "_give_up_taken",
         "if ears is None or not ears.taken:", "if True:"),
    _bug("kazoo closes what is another's", SESSION, OwnSocket, "close", "if self.own.taken:"),
    _bug("kazoo closes what is another's, with TLS", SESSION, handler_sockets, "closes_its_own",
         "if own.taken", "if False"),
    _bug("kazoo's thread is woken by what is another's", SESSION, Waker, "send",
         " and not self._own[1].taken", ""),
    _bug("kazoo's thread reads the bell though it is another's", SESSION, Waker, "_drain",
         "if self._own[0].taken:"),
    _bug("a bell that is another's stays", SESSION, Waker, "mend",
         "if self.taken and not self._closed:"),
    _bug("a bell that was rung is made anew as if it was not", SESSION, Waker, "mend", "if self._rung:"),
    _bug("with TLS what is another's is read", SESSION, LeanHandler, "_wait", "if self._is_taken():"),
    _bug("a connection to a database is lent though it is another's", DRIVERS, descriptors, "_check",
         "if taken(connection):"),
    _bug("a connection to a database is closed though it is another's", DRIVERS, descriptors,
         "_leave_taken", "if taken(connection):"),
    _bug("a stranger is hung up on", DRIVERS, descriptors, "hang_up", "if identity(copy) != kind:"),
]  # fmt: skip
