"""Bugs to plant in the store that is a file, and in the gate of a file.

Most are a change of a few words in the text of a function: what is replaced has to be there.
"""

from __future__ import annotations
import __future__ as futures

import inspect
import sys
import textwrap
from types import ModuleType
from typing import Any

from recipes import _descriptors as numbers
from recipes.fencing import file as gates
from recipes.stores._kit import blocking, subscriptions, tasks
from recipes.stores._kit.session import Session
from recipes.stores.sqlite import (
    SqliteBackend,
    database,
    descriptors,
    filelock,
    liveness,
    location,
    notifications,
    schema,
    session,
    transactions,
    values,
)
from tests.mutants.transports import TransportMutant
from tests.simulation.bugs import swap

__all__ = ["SQLITE", "rewritten"]

FILE, VALUES, GATE = "SQLite", "values in SQLite", "file gate"


def rewritten(owner: ModuleType | type, name: str, *changes: tuple[str, str]) -> list[Any]:
    """Return the patches that have a function, method or property do something else."""
    original = vars(owner)[name]
    function = inspect.unwrap(original.fget if isinstance(original, property) else original)
    text = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} should stand once in {name}"
        text = text.replace(old, new)
    flags = futures.annotations.compiler_flag
    made: dict[str, Any] = {}
    exec(
        compile(text, inspect.getfile(function), "exec", flags, dont_inherit=True), function.__globals__, made
    )
    if isinstance(owner, type):
        return swap(owner, name, made[name])
    holders = [one for key, one in [*sys.modules.items()] if key.startswith("recipes.")]
    patches = [swap(one, name, made[name]) for one in holders if vars(one).get(name) is original]
    return [patch for (patch,) in patches]


def _bug(
    name: str, tests: str, owner: ModuleType | type, of: str, *changes: tuple[str, str], where: str = FILE
) -> TransportMutant:
    folder = "tests/fencing" if where == GATE else "tests/stores" if "/" in tests else "tests/stores/sqlite"
    return TransportMutant(name, where, f"{folder}/{tests}.py", lambda: rewritten(owner, of, *changes))


def _gate(name: str, of: str, *changes: tuple[str, str]) -> TransportMutant:
    return _bug(name, "test_file", gates.FileGate, of, *changes, where=GATE)


A, T, CONNECTIONS, FDS = transactions.Transaction, "test_transactions", "test_connections", "test_descriptors"
SQLITE = [
    # What requests do to the tables.
    _bug(
        "eviction ends only the suspects",
        T,
        A,
        "_sweep",
        ("self._bury(op.suspects)", "[self._end_session(one) for one in self._dead(op.suspects)]"),
    ),
    _bug(
        "the last in the queue is told first",
        T,
        A,
        "_tell",
        ("ORDER BY waiter", "ORDER BY waiter DESC"),
    ),
    _bug("sessions are told by their names", T, A, "_tell", ("ORDER BY waiter", "ORDER BY session")),
    _bug("who waits again is told later", T, A, "_want", ("OR IGNORE", "OR REPLACE")),
    _bug(
        "anybody deletes a contender",
        T,
        A,
        "_delete",
        (' AND session = ?"', '"'),
        ("(queue, token, session)", "(queue, token)"),
    ),
    _bug(
        "an attempt of another session is found",
        T,
        A,
        "_token_of",
        (' AND session = ?"', '"'),
        ("(ticket.queue, ticket.id, self._session)", "(ticket.queue, ticket.id)"),
    ),
    _bug(
        "anybody rewrites a contender",
        T,
        A,
        "_rewrite",
        ("owner != self._session or", "owner is None or"),
    ),
    _bug(
        "a renewal renews all",
        T,
        A,
        "_renew",
        ('SET expires_at = ? WHERE id = ?"', 'SET expires_at = ?"'),
        ("(self._now + ttl_s, self._session))", "(self._now + ttl_s,))"),
    ),
    _bug(
        "another's places count as held",
        T,
        A,
        "_is_mine",
        (" == self._session", " is not None"),
    ),
    _bug(
        "the end of a session leaves what it wanted to hear of",
        T,
        A,
        "_end_session",
        ('self._run("DELETE FROM watch WHERE session = ?", (session,))', "pass"),
    ),
    _bug(
        "who has gone leaves who wanted to hear of it",
        T,
        A,
        "_delete",
        ("DELETE FROM watch WHERE token = ?", "DELETE FROM watch WHERE token = -?"),
    ),
    _bug("a session that was started twice fails", T, A, "_open", ("INSERT OR REPLACE", "INSERT")),
    _bug("sessions of an earlier clock go on", T, A, "_expire", (" OR expires_at > ? + ttl_s", " OR ? < 0")),
    _bug(
        "a session ends later than it says",
        T,
        A,
        "_expect_session",
        ("found[0] <= self._now", "found[0] <= self._now - 1"),
    ),
    _bug(
        "the dead are believed to live",
        T,
        A,
        "_living",
        ("if rule.blockers(ahead) else []", "if False else []"),
    ),
    TransportMutant(
        "a listing begins at its tail",
        FILE,
        "tests/stores/sqlite/test_transactions.py",
        lambda: swap(
            transactions, "LIST", transactions.LIST.replace("ORDER BY token", "ORDER BY token DESC")
        ),
    ),
    _bug(
        "a listing has no end",
        T,
        A,
        "_list",
        ("(op.queue, op.most)", "(op.queue, -1)"),
    ),
    _bug("a queue is named for each that stands in it", T, A, "_queues", ("DISTINCT ", "")),
    _bug(
        "a reader listens when it has looked",
        T,
        A,
        "carry_out",
        ("elif isinstance(op, ops.Look):", "elif False:"),
    ),
    TransportMutant(
        "the farthest are looked at",
        FILE,
        "tests/stores/sqlite/test_transactions.py",
        lambda: swap(transactions, "NEAREST", transactions.NEAREST.replace("DESC", "ASC")),
    ),
    TransportMutant(
        "other queues count",
        FILE,
        "tests/stores/sqlite/test_transactions.py",
        lambda: swap(transactions, "COUNT", transactions.COUNT.replace("queue = ?", "queue <> '' || ?")),
    ),
    _bug(
        "a renewal takes room",
        CONNECTIONS,
        transactions,
        "grows",
        ("case ops.Open():", "case ops.Open() | ops.Renew():"),
    ),
    _bug("a rewrite ignores the version", T, A, "_rewrite", ("op.version not in (None, version)", "False")),
    _bug("a rewrite is not counted", T, A, "_rewrite", ("version = version + 1", "version = version")),
    _bug(
        "an observer is not notified of a rewrite",
        T,
        A,
        "_rewrite",
        ("self._tell_observers(queue)", "pass"),
    ),
    _bug(
        "who observes a queue is not told who goes", T, A, "_delete", ("self._tell_observers(queue)", "pass")
    ),
    _bug(
        "who observes a queue is not told who joins",
        T,
        A,
        "_place",
        ("self._tell_observers(ticket.queue)", "pass"),
    ),
    _bug(
        "an observer is notified for ever",
        T,
        A,
        "_tell_observers",
        ('self._run("DELETE FROM observer WHERE queue = ?", (queue,))', "pass"),
    ),
    _bug(
        "the end of a session leaves what it observed",
        T,
        A,
        "_end_session",
        ('self._run("DELETE FROM observer WHERE session = ?", (session,))', "pass"),
    ),
    _bug(
        "a later observer hides what an earlier one missed",
        T,
        A,
        "_observe_queue",
        ("if seen not in (None, state):", "if False:"),
    ),
    _bug(
        "a change of a queue that was not notified is not found",
        T,
        A,
        "_observe",
        ("self._state_seen(queue) != self._state(queue)", "False"),
    ),
    _bug(
        "a death is seen in no queue that is observed",
        CONNECTIONS,
        A,
        "_observe",
        ("owners.update(session for (session,) in rows)", "pass"),
    ),
    _bug("marks matter to nobody", T, A, "_as_seen", ("mark == target.mark or", "True or")),
    _bug("marks matter to all", T, A, "_as_seen", ("not op.mine.ticket.minds_marks", "False")),
    _bug(
        "an upgrade forgets who downgraded",
        "test_opening",
        schema,
        "_upgrade_contenders",
        ("ELSE 'downgraded' END", "ELSE '' END"),
    ),
    _bug(
        "two upgrade one after the other",
        "test_opening",
        schema,
        "_upgrade",
        ("if version < VERSION:", "if True:"),
    ),
    # Values.
    _bug(
        "a guard of another session counts",
        "test_values",
        A,
        "_guards",
        ("owner == self._session", "owner"),
        where=VALUES,
    ),
    _bug(
        "guards are not looked at",
        "test_values",
        A,
        "_put",
        ("in write.guards", "in write.guards[:0]"),
        where=VALUES,
    ),
    _bug(
        "who watches a value is not notified",
        "test_values",
        A,
        "_put",
        ("self._tell_observers(write.key)", "pass"),
        where=VALUES,
    ),
    _bug(
        "who watches a value is notified of a settlement",
        "test_values",
        A,
        "_put",
        ("found.done and not op.exchange.settles", "found.done"),
        where=VALUES,
    ),
    _bug(
        "a value takes no room",
        "test_full_disk",
        transactions,
        "grows",
        ("return len(put.write.data)", "return None"),
        where=VALUES,
    ),
    _bug(
        "a value takes no more room than a contender",
        "test_full_disk",
        transactions,
        "grows",
        ("return len(put.write.data)", "return 0"),
        where=VALUES,
    ),
    _bug(
        "a settlement takes room",
        "test_full_disk",
        transactions,
        "grows",
        ("if not put.settles and put.write.data", "if put.write.data"),
        where=VALUES,
    ),
    _bug(
        "a deletion takes room",
        "test_full_disk",
        transactions,
        "grows",
        (" and put.write.data is not None", ""),
        ("len(put.write.data)", 'len(put.write.data or b"")'),
        where=VALUES,
    ),
    _bug(
        "a value is not synced",
        "test_values",
        transactions,
        "lasts",
        ("isinstance(op, Put) and not op.exchange.settles", "False"),
        where=VALUES,
    ),
    _bug(
        "everything is synced",
        "test_values",
        transactions,
        "lasts",
        ("isinstance(op, Put) and not op.exchange.settles", "True"),
        where=VALUES,
    ),
    _bug(
        "what follows a value is synced too",
        "test_values",
        schema,
        "synced",
        ("if not db.in_transaction:", "if False:"),
        where=VALUES,
    ),
    _bug(
        "no commit is synced after a value",
        "test_values",
        schema,
        "synced",
        ("synchronous = {before}", "synchronous = NORMAL"),
        where=VALUES,
    ),
    _bug(
        "a deletion leaves the value",
        "test_values",
        values,
        "_set",
        ("DELETE FROM value WHERE key = ?", "UPDATE value SET data = x'' WHERE key = ?"),
        where=VALUES,
    ),
    _bug(
        "versions are those of the receipt",
        "test_values",
        values,
        "put",
        ("version = token()", "version = receipt + 1"),
        where=VALUES,
    ),
    _bug(
        "a settlement keeps the version",
        "test_values",
        values,
        "put",
        ("version = token()", "version = receipt if asked.settles else token()"),
        where=VALUES,
    ),
    _bug(
        "a settlement writes the value",
        "test_values",
        values,
        "put",
        ("if asked.settles:", "if False:"),
        where=VALUES,
    ),
    _bug(
        "all sessions share a receipt",
        "test_values",
        values,
        "put",
        ("(session, write.key))", '("", write.key))'),
        ("(session, write.key, version", '("", write.key, version'),
        where=VALUES,
    ),
    _bug(
        "a write that is refused does not say what is there",
        "test_values",
        values,
        "put",
        ("read(run, write.key)", "Stored()"),
        where=VALUES,
    ),
    _bug(
        "large values have the log grow",
        "test_values",
        session.FileSession,
        "_try",
        (" + (grows(command.op) or 0) / CHECKPOINT_BYTES", ""),
        where=VALUES,
    ),
    _bug(
        "a second watcher hides what the first did not hear",
        "test_values",
        A,
        "_observe_queue",
        ("and seen is None:", "and False:"),
        where=VALUES,
    ),
    _bug(
        "each watcher is notified of the next",
        "test_values",
        A,
        "_observe_queue",
        (" and seen is None:", ":"),
        where=VALUES,
    ),
    _bug(
        "only files of older contenders get values",
        "test_opening",
        schema,
        "_upgrade",
        ("if not has_values:", "if not has_values and version < VERSION:"),
        where=VALUES,
    ),
    _bug(
        "a request that was never begun may have been done",
        "kit/test_links",
        Session,
        "carry_out",
        (", unsent=True", ""),
        where=VALUES,
    ),
    _bug(
        "a job that was never begun may have been done",
        "kit/test_links",
        tasks._Job,
        "give_up",
        ("unsent=not self.begun", "unsent=False"),
        where=VALUES,
    ),
    _bug(
        "a job that was begun was not",
        "kit/test_links",
        tasks._Job,
        "give_up",
        ("unsent=not self.begun", "unsent=True"),
        where=VALUES,
    ),
    TransportMutant(
        "receipts stay behind",
        VALUES,
        "tests/stores/sqlite/test_values.py",
        lambda: swap(schema, "VALUES", schema.VALUES.replace("AFTER DELETE", "AFTER INSERT")),
    ),
    TransportMutant(
        "the version of a value is no state",
        VALUES,
        "tests/stores/sqlite/test_values.py",
        lambda: swap(transactions, "STATE", transactions.STATE.replace("SELECT version", "SELECT 1")),
    ),
    # Opening, transactions, the log.
    _bug(
        "a writer begins as a reader",
        CONNECTIONS,
        session.FileSession,
        "_transact",
        ('"IMMEDIATE" if writes(command) else "DEFERRED"', '"DEFERRED"'),
    ),
    _bug("what broke is not undone", T, schema, "transaction", ('db.execute("ROLLBACK")', "pass")),
    _bug(
        "what an interrupt left is not undone",
        CONNECTIONS,
        database.Database,
        "release",
        ('self._db.execute("ROLLBACK")', "pass"),
    ),
    _bug("nothing is synced", "test_opening", schema, "_tune", ("synchronous = NORMAL", "synchronous = OFF")),
    _bug(
        "the number of a boot is not synced",
        "test_opening",
        schema,
        "_enter_boot",
        ('    db.execute("PRAGMA synchronous = FULL")\n    with', "    with"),
    ),
    _bug(
        "tokens go on after a restart",
        "test_opening",
        schema,
        "_enter_boot",
        ('token = (token / ? + 1) * ?", (boot, EPOCH, EPOCH)', 'token = token", (boot,)'),
    ),
    _bug(
        "SQLite copies the log itself",
        "test_log",
        schema,
        "_tune",
        ("wal_autocheckpoint = 0", "wal_autocheckpoint = 1000"),
    ),
    _bug(
        "a checkpoint lets others write",
        "test_log",
        schema,
        "checkpoint",
        ("wal_checkpoint(FULL)", "wal_checkpoint(PASSIVE)"),
    ),
    _bug(
        "a checkpoint leaves a wait behind",
        "test_log",
        schema,
        "checkpoint",
        ("busy_timeout = 0", "busy_timeout = 5000"),
    ),
    _bug("no room is kept", "test_log", schema, "_keep_room", ("(zeroblob(?))", "(substr(?, 1, 1))")),
    _bug(
        "SQLite waits for as long as it likes", "test_opening", schema, "connect", ("timeout=0", "timeout=5")
    ),
    _bug(
        "waiting for writers has no end",
        CONNECTIONS,
        Session,
        "carry_out",
        ("if boot_time() + pause_s >= until:", "if False:"),
    ),
    _bug(
        "waiting for earlier requests has no end",
        CONNECTIONS,
        database.Database,
        "acquire",
        ("if timeout_s <= 0:", "if False:"),
    ),
    _bug(
        "sessions are timed by the wall clock",
        CONNECTIONS,
        session.FileSession,
        "_transact",
        ("db, boot_time()", "db, time.time()"),
    ),
    _bug(
        "another file in its place is not seen",
        CONNECTIONS,
        database.Database,
        "_is_moved",
        ("self._file is not None and self._file != file", "False"),
    ),
    _bug(
        "a connection goes through a fork",
        "test_fork",
        database.Database,
        "before_fork",
        ("self.close()", "pass"),
    ),
    _bug(
        "a request without an answer is none of OSError's",
        "test_opening",
        location,
        "check",
        ("except OSError as error:", "except ZeroDivisionError as error:"),
    ),
    TransportMutant(
        "a platform without fcntl is found out late",
        FILE,
        "tests/stores/sqlite/test_opening.py",
        lambda: swap(SqliteBackend, "named", classmethod(lambda cls, parts: cls(location.path_of(parts)))),
    ),
    # Who lives.
    _bug(
        "a session lives before it can be seen to",
        CONNECTIONS,
        session.FileSession,
        "_try",
        ("self._prepare(command)", "pass"),
        (
            "reply, work = self._transact(command, db)",
            "(reply, work), _ = self._transact(command, db), self._prepare(command)",
        ),
    ),
    _bug(
        "a lock gets its name before it is taken",
        "test_liveness",
        liveness.LivenessLock,
        "_make",
        (
            "if self._is_locked(own.number, new):",
            "if not os.rename(new, path) and self._is_locked(own.number, path):",
        ),
        ("os.rename(new, path)  # noqa: PTH104", "pass"),
    ),
    _bug(
        "a lock of the process, not of the file that is open",
        "test_liveness",
        filelock,
        "_set",
        ("fcntl.F_OFD_SETLK", "fcntl.F_SETLK"),
    ),
    _bug(
        "a lock is left to whoever inherited it",
        "test_liveness",
        liveness.LivenessLock,
        "drop",
        ("filelock.release(self.descriptor)", "pass"),
    ),
    _bug(
        "a session that is left goes on living",
        CONNECTIONS,
        session.FileSession,
        "close",
        ("self._liveness.drop()", "pass"),
    ),
    _bug(
        "a lock that is held is removed",
        "test_liveness",
        filelock,
        "remove_free",
        ("take(descriptor) and is_at(descriptor, path)", "is_at(descriptor, path)"),
    ),
    _bug(
        "a child keeps what it inherited",
        FDS,
        numbers.Descriptor,
        "__init__",
        ("_ours.add(self)", "pass"),
    ),
    # Descriptors.
    _bug(
        "a number says whose it is",
        FDS,
        numbers.Descriptor,
        "mine",
        ("identity(number) == self._identity", "True"),
    ),
    _bug(
        "another's descriptor is closed",
        FDS,
        numbers.Descriptor,
        "close",
        ("if of >= 0 and identity(of) == self._identity:", "if of >= 0:"),
    ),
    _bug(
        "another's socket is closed",
        FDS,
        numbers.Descriptor,
        "close",
        ("if self.taken:", "if False:"),
    ),
    _bug(
        "a socket closes its number when it is finalized",
        FDS,
        numbers.Descriptor,
        "close",
        ("of.detach()", "pass"),
    ),
    _bug(
        "SQLite's descriptors are not looked at",
        FDS,
        database.Database,
        "_is_taken",
        ("links is None", "False"),
    ),
    _bug(
        "SQLite closes another's descriptor",
        FDS,
        database.Database,
        "close",
        ("if files is None or files.whole:", "if True:"),
    ),
    _bug(
        "a file whose locks are gone is used again",
        FDS,
        database.Database,
        "close",
        ("_taken.add(self._file)", "pass"),
    ),
    _bug(
        "a connection that came and went is missed",
        FDS,
        descriptors.Files,
        "links",
        ("(found.st_dev, found.st_ino) == what", "all(identity(its) == was for its, was in one)"),
    ),
    _bug(
        "a lock that is gone ends no session",
        FDS,
        session.FileSession,
        "_expect_own",
        ("and self.taken", "and False"),
    ),
    _bug(
        "a session that was given up cannot be ended",
        FDS,
        session.FileSession,
        "_expect_own",
        ("isinstance(command.op, Renew | Enqueue | Probe | Observe) and ", ""),
    ),
    _bug(
        "a transaction is undone in another's file",
        FDS,
        database.Database,
        "release",
        ("if self._is_taken(self._links()):", "if False:"),
    ),
    _bug(
        "another's lock is let go",
        FDS,
        liveness.LivenessLock,
        "drop",
        ("if self.descriptor >= 0:", "if self._own is not None:"),
        ("filelock.release(self.descriptor)", "filelock.release(self._own.number)"),
    ),
    _bug(
        "a bell reads what was sent to another",
        FDS,
        notifications.Notifications,
        "hear",
        ("None if self.taken else self.socket", "self.socket"),
    ),
    _bug(
        "a listener does not notice",
        FDS,
        blocking.QueueConnection,
        "_hear",
        ("if session.taken or", "if False and"),
    ),
    _bug(
        "a poke goes to another",
        FDS,
        blocking.QueueConnection,
        "_poke",
        ("if self._own[0].taken:", "if False:"),
    ),
    _bug(
        "a loop goes on with a number that is another's",
        FDS,
        tasks.AsyncQueueConnection,
        "ask",
        ("self._stop_hearing()", "pass"),
    ),
    # Telling and hearing.
    _bug(
        "the second look is dropped",
        "kit/test_subscriptions",
        subscriptions.Subscriptions,
        "add",
        ("if self._waiting.get(ref) is waiting:", "if True:"),
    ),
    _bug(
        "a mailbox that was forgotten is told",
        "kit/test_subscriptions",
        subscriptions.Subscriptions,
        "forget",
        ("waiting.pop(mailbox, None)", "pass"),
    ),
    _bug(
        "what one was notified of is kept with it",
        "kit/test_subscriptions",
        subscriptions.Subscriptions,
        "add",
        ("of.pop(one, None)", "pass"),
    ),
    _bug(
        "a contender that has gone is told of for ever",
        "kit/test_subscriptions",
        subscriptions.Subscriptions,
        "post",
        ("self._waiting.pop(event.ref, ())", "self._waiting.get(event.ref, ())"),
    ),
    _bug(
        "a socket that is full raises",
        "test_notifications",
        notifications.Notifications,
        "ring",
        ("except OSError:", "except FileNotFoundError:"),
    ),
    _bug(
        "too much is said at once",
        "test_notifications",
        notifications.Notifications,
        "ring",
        ('said if len(said) <= LONGEST_TOLD else b""', "said"),
    ),
    _bug(
        "what a socket did not keep is not missed",
        "test_notifications",
        notifications.Notifications,
        "hear",
        (" or heard >= OVERHEARD", ""),
    ),
    _bug(
        "who cannot hear waits as long",
        "test_notifications",
        notifications.Notifications,
        "tick_s",
        ("DEAF_TICK_S if self.socket is None else TICK_S", "TICK_S"),
    ),
    _bug(
        "the listener sleeps on",
        CONNECTIONS,
        blocking.QueueConnection,
        "_poke",
        ('self._waking.send(b".")', "pass"),
    ),
    _bug(
        "hearing keeps from looking",
        CONNECTIONS,
        blocking.QueueConnection,
        "_hear",
        (" or session.tick_s == 0", ""),
    ),
    _bug(
        "a downgrade is told again and again",
        CONNECTIONS,
        Session,
        "tick",
        ("mark != before.get(ref)", "True"),
    ),
    _bug(
        "what was not heard is not found",
        CONNECTIONS,
        Session,
        "tick",
        ("if ref not in found.standing", "if False"),
    ),
    _bug(
        "a death is not looked for",
        CONNECTIONS,
        session.FileSession,
        "look_after",
        ("found.due or dead", "found.due"),
    ),
    _bug(
        "the end of a session is not told",
        CONNECTIONS,
        Session,
        "tick",
        ("self.end(lost.reason)", "pass"),
    ),
    _bug(
        "who listens late is not looked after",
        CONNECTIONS,
        Session,
        "listen",
        ("self.on_listen()", "pass"),
    ),
    _bug(
        "a request that was given up is carried out",
        "test_connections_asyncio",
        tasks._Worker,
        "_work",
        (" and job.begin()", ""),
    ),
    _bug(
        "hearing too much is no reason to look",
        "test_connections_asyncio",
        tasks.AsyncQueueConnection,
        "_hear",
        ("self._worker.look()", "pass"),
    ),
    _bug(
        "a task waits longer than it said",
        "test_connections_asyncio",
        tasks.AsyncQueueConnection,
        "ask",
        ("loop.call_later(timeout_s,", "loop.call_later(timeout_s + 20,"),
    ),
    # The gate of a file.
    _gate("the fence is not synced", "_inside", ("os.fsync(fence.number)", "pass")),
    _gate(
        "the directory of a new fence is not synced",
        "_locked",
        ("_sync(self._fence.parent)", "pass"),
    ),
    _gate("the new content is not synced", "_draft", ("os.fsync(target)", "pass")),
    _gate("the new name is not synced", "write", ("_sync(self.path.parent)", "pass")),
    _gate(
        "the fence is written after the block",
        "_inside",
        ("if now != seen:", "yield\n        if now != seen:"),
        ("os.fsync(fence.number)\n        yield\n", "os.fsync(fence.number)\n"),
    ),
    _gate(
        "a fence that was replaced lets in",
        "_locked",
        ("self._fence.exists() and os.path.samestat(os.fstat(number), self._fence.stat())", "True"),
    ),
    _gate("a child keeps the gate closed", "_inside", ("fcntl.flock(fence.number, fcntl.LOCK_UN)", "pass")),
    _gate("the gate lets two in", "_locked", ("fcntl.LOCK_EX", "fcntl.LOCK_SH")),
    _gate(
        "the old content is written over",
        "write",
        ("draft.replace(self.path)", "self.path.write_bytes(data)"),
    ),
    _gate("permissions are forgotten", "_draft", ("if found is not None:", "if False:")),
    _gate("a draft stays", "_draft", ("draft.unlink(missing_ok=True)", "pass")),
]
