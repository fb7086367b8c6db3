"""One ZooKeeper session over one ``KazooClient``: everything of a connection except the waiting.

Calls are handed over with `KazooSession.submit` and wake the waiting call when they are
done; the blocking API and the asyncio API differ in nothing else. What is asked while
there is no connection is parked here, not in kazoo's queue: kazoo would send it later,
whether or not somebody still waits for the answer.

The state changes in kazoo's connection thread, in its listener, in the order of the wire.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from kazoo.exceptions import AuthFailedError, KazooException
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from recipes._contract.connection import Mailbox, OnEnd
from recipes._mutex import new_lock
from recipes._section import section
from recipes._threads import new_thread
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.events import Log
from recipes.stores.secret import Secret
from recipes.stores.zookeeper.access import Access
from recipes.stores.zookeeper.codec import acl_bytes
from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.kazoo_client_calls import Call, Part
from recipes.stores.zookeeper.kazoo_client_connection import LeanClient, PlainClient
from recipes.stores.zookeeper.kazoo_client_errors import translated
from recipes.stores.zookeeper.kazoo_client_fit import fits
from recipes.stores.zookeeper.kazoo_client_log import KazooLog
from recipes.stores.zookeeper.kazoo_client_watches import Watches
from recipes.stores.zookeeper.requests import (
    Children,
    Close,
    Connect,
    Exists,
    Get,
    SessionExpired,
    SessionInfo,
    Sync,
)

__all__ = ["KazooSession", "connect_timeout", "make_client"]

log = Log("recipes.kazoo")

CLOSED = "the session was closed"
DENIED = "the credentials were not accepted"
CLOSE_GRACE_S = 0.5
LONGEST_CONNECT_S = 5.0
SHORTEST_CONNECT_S = 1.0
LEADERLESS = 1 / 8
"""A server that passes on nothing to the leader for so much of the session's timeout is left."""


class KazooSession:
    """The session; starts with a ``Connect``, ends once, and is never resumed or replaced.

    Args:
        hosts: ``host:port`` of each server, with commas between.
        on_end: Told once, in some thread, why the session ended if not by a close.
        access: TLS, who the client is, and the ACL of what it makes.
        kazoo_options: More for ``KazooClient``.
    """

    def __init__(self, hosts: str, on_end: OnEnd, access: Access, kazoo_options: Mapping[str, Any]) -> None:
        self._hosts = hosts
        self._on_end = on_end
        self._access = access
        self._asker = None if access.who is None else access.who.asker
        self._connect_s = LONGEST_CONNECT_S
        self._servers = hosts.count(",") + 1  # until names are resolved
        self._options = dict(kazoo_options)
        self._log = KazooLog(self._on_session, tls=access.context is not None)
        self._watches = Watches()
        self._lock = new_lock()
        self._pid = 0
        self._client: Any = None
        self._handler: LeanHandler | None = None
        self._opening: Call | None = None
        self._granted: SessionInfo | None = None  # as the server said last
        self._info: SessionInfo | None = None  # as it said first
        self._up = False
        self._reached = False  # there was a connection since the last pause between two rounds
        self._parked: dict[int, Call] = {}
        self._over: str | None = None
        self._stopping = False  # a thread has begun to stop kazoo, which nothing interrupts
        self._shut = False
        self._ended = False  # on the server, as that has said
        self._closing: list[Call] = []
        self._acl = b""

    # What the APIs call.

    def submit(self, call: Call, timeout_s: float) -> None:
        """Send what ``call`` asks, or park it until there is a connection; never blocks."""
        request = call.request
        call.start()
        if self._inherited():
            call.fail(SessionExpired("forked"))
        elif isinstance(request, Connect):
            self._start(call, request.timeout_s)
        elif isinstance(request, Close):
            self._close(call, min(timeout_s, 1.0))
        else:
            with section.mark, self._lock:
                over = self._over
                if over is None and not self._up:
                    self._parked[id(call)] = call
                    return
            if over is None:
                self._send(call)
            else:
                call.fail(SessionExpired(over, unsent=True))

    def outcome(self, call: Call, timeout_s: float) -> Any:
        """Return the reply, or raise, when ``call`` is done or its time is up."""
        unsent = not call.complete and self._unpark(call)
        missing = not call.complete and self.abandon(call)
        if missing and isinstance(call.request, Close):
            return False  # it goes on behind
        if missing and not unsent:
            self._leave_if_cut_off(call)
        return call.result(partial(self._unanswered, timeout_s, unsent=unsent), self._malformed)

    def _leave_if_cut_off(self, call: Call) -> None:
        """Go to another server from one that does not reach the leader, whatever it answers by itself."""
        info = self._info
        waited_s = 0.0 if call.sent_at is None else time.monotonic() - call.sent_at
        enough = info is not None and waited_s >= info.timeout_s * LEADERLESS
        if enough and self._servers > 1 and any(isinstance(part, Sync) for part in call.parts):
            log.warning(
                "%s: no answer from the leader for %.3g s; trying another server", self._hosts, waited_s
            )
            if self._handler is not None:
                self._handler.abort()

    def _unpark(self, call: Call) -> bool:
        """Have ``call`` not be sent any more; returns whether it was not."""
        if self._inherited():
            return False
        with section.mark, self._lock:
            return self._parked.pop(id(call), None) is not None

    def abandon(self, call: Call) -> bool:
        """Wait for ``call`` no more; returns whether it was not done. A half-open session is given up."""
        missing = call.abandon()
        if missing and not self._inherited():
            self._unpark(call)
            if self._handler is not None:
                self._handler.ring()
            if call is self._opening:
                self.close()
        return missing

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``."""
        if not self._inherited():
            self._watches.forget(mailbox)

    def close(self) -> None:
        """End the session and let go of everything, without waiting."""
        if not self._inherited():
            self._close(None, CLOSE_GRACE_S)

    # Starting.

    def _start(self, call: Call, timeout_s: float) -> None:
        with section.mark, self._lock:
            if self._opening is not None:
                raise AssertionError("a link should be connected once")
            self._opening = call
            self._pid = os.getpid()
        try:
            with section.mark, self._lock:
                if self._over is None:
                    self._client = self._make_client(timeout_s)
            if self._client is None:
                call.fail(SessionExpired(CLOSED))
                return
            self._client.start_async()
        except (KazooException, RuntimeError) as error:  # RuntimeError: no thread can be started
            call.fail(translated(error, self._hosts))
            self.close()

    def _make_client(self, timeout_s: float) -> Any:
        self._connect_s = connect_timeout(self._servers, timeout_s)
        handler = self._handler = LeanHandler(
            connect_timeout_s=self._connect_s,
            on_pause=self._on_round_failed,
            on_stop=self._on_stop,
            on_connect=self._introduce,
            on_resolved=partial(self._on_resolved, timeout_s),
            ssl_context=self._access.context,
        )
        options = {**self._access.kazoo_options(), **self._options}
        client = make_client(self._hosts, timeout_s, handler, self._log, options)
        client.add_listener(self._on_state)
        self._acl = acl_bytes(client.default_acl or OPEN_ACL_UNSAFE)
        return client

    def _on_resolved(self, timeout_s: float, servers: int) -> None:
        """Hear of how many servers the names are: in kazoo's thread, before each round of connecting."""
        handler = self._handler
        if handler is not None:
            self._servers = servers
            self._connect_s = handler.connect_timeout_s = connect_timeout(servers, timeout_s)

    def _introduce(self) -> None:
        """Have kazoo know who the client is, before it connects: in kazoo's thread."""
        try:
            self._access.introduce(self._client, self._password)
        except StoreUnavailable as late:
            # For kazoo a connection that failed: it looks for a text, and tries again.
            raise TimeoutError(errno.ETIMEDOUT, late.detail) from None
        except StoreDenied as denied:
            self._on_lost(denied.detail, denied)  # kazoo does not tell: for it nothing has begun
            raise AuthFailedError from None

    def _password(self) -> Secret:
        """Ask for the password, for no longer than a server may take to be connected to."""
        assert self._asker is not None, "an introduction needs a user name"
        return self._asker.within(self._hosts, self._connect_s)

    def _on_session(self, session_id: int, timeout_ms: int) -> None:
        """Hear what the server granted; kazoo says so just before it says CONNECTED."""
        self._granted = SessionInfo(session_id, timeout_ms / 1000)
        if self._handler is not None:
            self._handler.heard()
            self._handler.silence_limit_s = timeout_ms / 1000 / 3  # as with kazoo's pings

    def _on_round_failed(self) -> None:
        """Fail what waits for a connection when no server would have us; once connected, kazoo tries on."""
        handler = self._handler
        with section.mark, self._lock:
            failed = handler is not None and handler.tried and not self._reached
            if handler is not None and handler.tried:
                handler.tried = self._reached = False
            refused = list(self._parked.values()) if failed else []
            for call in refused:
                del self._parked[id(call)]
        trouble = self._log.trouble(self._hosts) or "no connection"
        nowhere = StoreUnavailable(self._hosts, trouble, unsent=True)
        for call in refused:
            call.fail(nowhere)
        opening = self._opening
        if opening is not None and not opening.over and self._info is None:
            opening.fail(self._log.failure(self._hosts))
            self.close()

    # The connection comes and goes: kazoo's thread.

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._on_connected()
        elif state == KazooState.SUSPENDED:
            with section.mark, self._lock:
                self._up = False
            self._watches.disturb()
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            self._ended = True
            self._on_lost("the server has ended the session")
        elif self._client.client_state == KeeperState.AUTH_FAILED:
            self._on_lost(DENIED, StoreDenied(self._hosts, DENIED))

    def _on_connected(self) -> None:
        granted = self._granted
        assert granted is not None, "kazoo should have said what the server granted"
        first = self._info = self._info or granted
        if granted.id != first.id or granted.timeout_s < first.timeout_s:
            # Neither happens in a sound ensemble; the clock of the session would be wrong from here on.
            self._on_lost("the server resumed it with another id or a shorter timeout")
            return
        with section.mark, self._lock:
            self._up = self._over is None
            self._reached = True
            parked = list(self._parked.values())  # none, once it is over
            self._parked.clear()
        for call in parked:
            self._send(call)
        opening = self._opening
        if opening is None or opening.over:
            return
        if self._client.auth_data or self._client._connection.sasl_options:
            # kazoo says CONNECTED before it sends them, and what follows them tells whether they were good.
            self._client.exists_async("/").rawlink(partial(self._on_proof, opening))
        else:
            opening.settle(0, granted)

    def _on_proof(self, opening: Call, result: Any) -> None:
        if result.exception is None:
            opening.settle(0, self._info)
            return
        error = translated(result.exception, self._hosts)
        if not isinstance(error, StoreUnavailable):  # else the connection went: proved again on the next
            opening.fail(error)
            self.close()

    def _on_stop(self, error: BaseException | None) -> None:
        """Kazoo's thread has ended; unless it was to end, the session is as good as gone."""
        if error is None:
            self._on_lost("the connection was stopped")
        else:
            self._on_lost(f"kazoo's thread has died: {error!r}", translated(error, self._hosts))

    def _on_lost(self, reason: str, refused: Exception | None = None) -> None:
        """End everything: the session is over on the store, and no other takes its place."""
        if not self._end(reason):
            return
        self._shut_down(CLOSE_GRACE_S)
        opening = self._opening
        if opening is not None and not opening.over:
            opening.fail(refused or StoreUnavailable(self._hosts, reason))
            return
        try:
            self._on_end(reason)
        except BaseException:
            log.exception("what is notified of the end of a session raised")

    # Ending.

    def _end(self, reason: str) -> bool:
        """Take no more requests; returns False if that was so already."""
        with section.mark, self._lock:
            if self._over is not None:
                return False
            self._over, self._up = reason, False
            parked = list(self._parked.values())
            self._parked.clear()
        for call in parked:
            call.fail(SessionExpired(reason, unsent=True))
        self._watches.disturb()
        return True

    def _close(self, call: Call | None, grace_s: float) -> None:
        if call is not None:
            with section.mark, self._lock:
                self._closing.append(call)
        self._end(CLOSED)
        self._shut_down(grace_s)

    def _shut_down(self, grace_s: float) -> None:
        """Stop kazoo in a thread: its ``stop`` waits for ten seconds and more.

        Asked again it does what an interrupt kept from being done: kazoo's thread would keep the session.
        """
        client, handler = self._client, self._handler
        if self._shut or client is None or handler is None:
            self._settle_closing()
            return
        if self._stopping:
            return
        handler.retire()
        try:
            new_thread("kazoo-close", self._stop_kazoo, client, handler, grace_s).start()
        except RuntimeError:  # the interpreter is going down, and takes the rest with it
            handler.abort()
            self._settle_closing()

    def _stop_kazoo(self, client: Any, handler: LeanHandler, grace_s: float) -> None:
        """Say goodbye for at most ``grace_s``, then cut the connection; return when kazoo's thread has ended.

        kazoo's ``stop`` waits for that thread for ten seconds and more, its ``close`` refuses while it runs.
        """
        with section.mark, self._lock:
            if self._stopping:
                return
            self._stopping = True
        timer = threading.Timer(grace_s, handler.abort)
        timer.daemon, timer.name = True, "recipes-kazoo-abort"
        try:
            timer.start()
        except RuntimeError:  # the interpreter is going down, or there are too many threads
            handler.abort()
        try:
            client.stop()
        except Exception:
            log.debug("kazoo did not stop in time", exc_info=True)
        timer.cancel()
        handler.join()  # a name server that does not answer may hold it up
        client.close()
        self._ended |= getattr(client._connection, "said_goodbye", False)
        self._settle_closing()

    def _settle_closing(self) -> None:
        with section.mark, self._lock:
            self._shut = True
            closing, self._closing = self._closing, []
        for call in closing:
            call.settle(0, self._ended or self._info is None)

    # Requests and replies.

    def _send(self, call: Call) -> None:
        if call.over:
            return  # it was parked, and its time is up
        call.sent_at = time.monotonic()
        asked = []
        for position, request in enumerate(call.parts):
            watcher = None
            if isinstance(request, Children | Exists | Get) and request.mailbox is not None:
                joins = type(request) is Get and bool(request.queue)
                self._watches.add(request.path, request.mailbox, request.queue, joins=joins)
                watcher = self._watches.told
            try:
                asked.append(Part(call, position, self._acl, watcher, self._on_failed))
            except Exception as error:  # a mistake of the caller's comes back as it is
                call.settle(position, error)
        self._client.ask(asked)

    def _on_failed(self, call: Call, part: Part, said: Exception) -> None:
        error = translated(said, self._hosts)
        if isinstance(error, StoreUnavailable):
            if self._up and self._handler is not None:
                self._handler.ring()  # kazoo takes an interrupt for a lost connection, and does not ring
        elif part.watcher is not None and not call.over:
            # Nothing is watched; without an answer it may be. What nobody waits for any more says
            # nothing: it may have been asked again, and that may watch.
            self._watches.drop(part.path, part.request.mailbox, part.request.queue)
        call.settle(part.position, error)

    def _malformed(self, error: Exception) -> Exception:
        return translated(error, self._hosts)

    def _unanswered(self, timeout_s: float, *, unsent: bool) -> StoreUnavailable:
        late = f"nothing within {timeout_s:.3g} s"
        error = StoreUnavailable(self._hosts, late) if self._up else self._log.failure(self._hosts, late)
        error.unsent = unsent
        return error

    def _inherited(self) -> bool:
        """Return whether this is a forked child: all of it, locks as well, belongs to the parent."""
        return self._pid not in (0, os.getpid())


def connect_timeout(servers: int, session_timeout_s: float) -> float:
    """Return how long one server may take, so that each gets its chance before the session expires."""
    share_s = session_timeout_s / 2 / servers
    return min(LONGEST_CONNECT_S, max(SHORTEST_CONNECT_S, share_s))


def make_client(
    hosts: str, session_timeout_s: float, handler: LeanHandler, logger: KazooLog, options: Mapping[str, Any]
) -> Any:
    """Return a client, not started; ``options`` are for ``KazooClient``, but the rest of this is ours."""
    # kazoo draws an order for each round, and may begin with the server that was just left for its silence.
    rule = hosts.split(",")
    random.shuffle(rule)
    # kazoo's own policy waits up to an hour between two tries.
    retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.3, sleep_func=handler.sleep_func)
    ours: dict[str, Any] = {
        "hosts": ",".join(rule),
        "randomize_hosts": False,
        "timeout": session_timeout_s,
        "client_id": None,  # a session is never taken over
        "read_only": False,  # a server without a quorum cannot say who holds what
        "handler": handler,
        "connection_retry": retry,
        "command_retry": retry.copy(),
        "logger": logger,
    }
    handler.ahead = fits()
    return (LeanClient if handler.ahead else PlainClient)(**{**options, **ours})
