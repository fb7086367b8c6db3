"""What the ways of threads and of asyncio to Redis share: everything but the waiting.

A request is carried out by a generator over steps, which a transport takes for it: to connect, to send
commands and read their replies. The same holds for the listener, which goes on until it is closed.
"""

from __future__ import annotations

import hashlib
import weakref
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from importlib import resources
from typing import Any, Protocol, TypeVar

from redis import exceptions

from recipes._contract.connection import Batch, Request
from recipes._contract.wakeups import Disturbed
from recipes._record import record
from recipes._run.clock import boot_time
from recipes.errors import StoreDenied, StoreError, StoreFull, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.redis.access import Access
from recipes.stores.redis.bells import INVALIDATE, Bells
from recipes.stores.redis.codec import facts
from recipes.stores.redis.places import Address, Ask, Finding, One, Place
from recipes.stores.redis.requests import STARTING, Command, Listen, Run, Scan, Sure, Track, Word
from recipes.stores.sockets import describe
from recipes.stores.tls import refused_by_tls

__all__ = [
    "Dial",
    "Exchange",
    "Hear",
    "Link",
    "Pause",
    "Settings",
    "Step",
    "Steps",
    "Wire",
    "key_of",
    "login_of",
    "meaning",
]

T = TypeVar("T")
Words = Sequence[Word]

SCRIPT, SINCE = (
    resources.files("recipes.stores.redis").joinpath(name).read_text("utf-8")
    for name in ("queue.lua", "since.lua")
)
SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
IDLE_S = 1.0
"""After how long a connection learns anew which server it speaks to, where another may have taken over."""
SCANNED = 1000
RETRY_S = 0.2
MARGIN_S = 0.5
"""How much earlier than its request ``WAIT`` ends: a server answers it up to 0.1 s late."""
NEWS_S = 1.0
NEVER = "0" * 40


@record
class Settings:
    """What all connections of a backend are made with.

    Attributes:
        label: Where the store is, for errors.
        place: The servers.
        access: How to log in, and encrypt.
        prefix: That of all keys.
        grace_s: For how long nothing is granted after a restart or a failover.
        replicas: How many have to acknowledge what counts only if it cannot be lost.
        silence_s: After how long without a word the listener asks whether the server is there; after as
            long again it is taken for lost.
    """

    label: str
    place: Place
    access: Access = Access()
    prefix: str = "lock:"
    grace_s: float = 20.0
    replicas: int = 0
    silence_s: float = 2.0


class Link(Protocol):
    """One connection to one server.

    Attributes:
        address: Of the server.
        not_before_us: By the server's clock: the moment before which nothing is granted.
        used_at: When it answered last.
        hears: The id that the server has given it, if it listens.
    """

    address: Address
    not_before_us: int
    used_at: float
    hears: int

    def good(self) -> bool:
        """Whether it can take a request: nothing came unasked, and not its end."""
        ...

    def close(self) -> None:
        """Close it, by what uses it; more than once does no harm."""

    def hang_up(self) -> None:
        """Have what uses it find its end; from any thread."""


class Step:
    """One thing that a transport does; it raises OSError or redis-py's exceptions."""

    __slots__ = ()


@record
class Dial(Step):
    """Connect, and log in; the result is a `Link`, which is among ``links`` from before it connects."""

    address: Address
    access: Access
    links: Any


@record
class Exchange(Step):
    """Send commands together and read their replies; an exception stands for an error among them."""

    link: Any
    commands: Sequence[Words]
    replies: int | None = None


@record
class Hear(Step):
    """Read what comes unasked; the result is None if that takes longer than ``within_s``."""

    link: Any
    within_s: float


@record
class Pause(Step):
    """Do nothing for so long."""

    for_s: float


Steps = Generator[Step, Any, T]


@record
class _Manner:
    """How a request is carried out.

    Attributes:
        until: Before this moment of the boot clock.
        wants: So many replicas have to acknowledge it.
        redirected: Another server said where to ask.
        asking: That one does not have the slot yet.
    """

    until: float
    wants: int = 0
    redirected: bool = False
    asking: bool = False


def login_of(access: Access) -> dict[str, Any]:
    """Return what redis-py's connections take in order to log in."""
    given = {name: value for name, value in access.options.items() if not name.startswith("ssl")}
    return {"db": access.db, "protocol": 2, **given}


class Wire:
    """The connections of one session."""

    def __init__(self, settings: Settings) -> None:
        self.bells = Bells()
        self.closed = False
        self.channel = ""  # that of the session, from its beginning on
        self._settings = settings
        self._place = settings.place
        self._fails_over = settings.replicas > 0 or not isinstance(settings.place, One)
        self._free: dict[tuple[Address, int], deque[Any]] = {}
        self._links: weakref.WeakSet[Any] = weakref.WeakSet()
        self._hears: int = 0  # the id of the listener's connection, on its server
        self._left: Address | None = None  # where what is listened to is not what requests need
        self._disturbed_at = -NEWS_S

    # Requests.

    def carry_out(self, request: Request[Any], until: float) -> Steps[Any]:
        """Carry out a request before a moment of the boot clock."""
        match request:
            case Listen():
                self.bells.listen(request.mailbox, request.refs)
                if boot_time() - self._disturbed_at < NEWS_S:  # what was missed may be about these
                    request.mailbox.post(Disturbed())
            case Run() | Command():
                reply = yield from self._one(request, until)
                if isinstance(reply, Exception):
                    raise reply
                return reply
            case Sure() | Batch():
                wants = self._settings.replicas if isinstance(request, Sure) else 0
                return tuple((yield from self._together(request.parts, _Manner(until, wants))))
            case Track():
                return (yield from self._track(request))
            case Scan():
                return (yield from self._scan(request.pattern))
            case _:
                raise AssertionError(f"{request!r} should be a request to Redis")

    def _one(self, part: Run | Command, until: float) -> Steps[Any]:
        """Carry out one request; where there is one server, and it does it, by no step more than needed."""
        link = None if self._fails_over else self._kept(self._place.servers[0], 0)
        reply: Any = None
        if link is not None:
            self._listen(part)
            (reply,) = yield from self._sent(link, (_words(part, link, SHA),))
            self._done(link, (reply,))
        if link is None or isinstance(reply, exceptions.NoScriptError):
            (reply,) = yield from self._together([part], _Manner(until))
        elif isinstance(reply, Exception):
            reply = yield from self._settled(link.address, part, reply, _Manner(until))
        return reply

    def _listen(self, part: Run | Command) -> None:
        if isinstance(part, Run) and part.mailbox is not None:
            self.bells.listen(part.mailbox, part.refs, afresh=True)

    def _together(self, parts: Sequence[Any], manner: _Manner) -> Steps[list[Any]]:
        """Send requests in one go to each server that is concerned; an exception stands for what failed."""
        grouped: dict[Address, list[int]] = {}
        for number, part in enumerate(parts):
            address = yield from self._found(self._place.server_of(key_of(part)))
            grouped.setdefault(address, []).append(number)
        replies: dict[int, Any] = {}
        for address, numbers in grouped.items():
            try:
                found = yield from self._on(address, [parts[number] for number in numbers], manner)
            except StoreError as error:
                found = [error] * len(numbers)
            replies.update(zip(numbers, found, strict=True))
        return [replies[number] for number in range(len(parts))]

    def _on(self, address: Address, parts: Sequence[Any], manner: _Manner) -> Steps[list[Any]]:
        """Have one server do this; an exception stands for what it refused."""
        for part in parts:
            self._listen(part)
        link = yield from self._take(address)
        replies = yield from self._exchange(link, [_words(part, link, SHA) for part in parts], manner)
        unknown = [n for n, reply in enumerate(replies) if isinstance(reply, exceptions.NoScriptError)]
        if unknown:
            whole = [_words(parts[number], link, SCRIPT) for number in unknown]
            again = yield from self._exchange(link, whole, manner)
            for number, reply in zip(unknown, again, strict=True):
                replies[number] = reply
        self._done(link, replies)
        for number, reply in enumerate(replies):
            if isinstance(reply, Exception):
                replies[number] = yield from self._settled(address, parts[number], reply, manner)
        return replies

    def _settled(self, address: Address, part: Any, error: Exception, manner: _Manner) -> Steps[Any]:
        """Return what an error means; where it says that another server has the key, ask that one, once."""
        elsewhere = None if manner.redirected else self._place.redirected(_said(error), address)
        if elsewhere is not None:
            there = _Manner(manner.until, manner.wants, redirected=True, asking=elsewhere.once)
            return (yield from self._on(elsewhere.address, [part], there))[0]
        self._weigh(error, address)
        return meaning(self._settings.label, error)

    def _exchange(self, link: Any, commands: list[Words], manner: _Manner) -> Steps[list[Any]]:
        sent: list[Words] = commands
        if manner.asking:
            sent = [one for command in commands for one in (("ASKING",), command)]
        if manner.wants:
            left_s = manner.until - boot_time()
            within_ms = max(int(max(left_s - MARGIN_S, left_s / 2) * 1000), 1)
            sent = [*sent, ("WAIT", manner.wants, within_ms)]
        replies = yield from self._sent(link, sent)
        if manner.wants:
            found = replies.pop()
            if isinstance(found, Exception) or found < manner.wants:
                link.close()
                self._place.lost(link.address)  # it may be a former master that goes on
                said = f"{found} of {manner.wants} replicas acknowledged in time (replicas={manner.wants})"
                raise StoreUnavailable(self._settings.label, said)
        return replies[1::2] if manner.asking else replies

    def _sent(self, link: Any, commands: Sequence[Words], *, unsent: bool = False) -> Steps[list[Any]]:
        """Send commands and return the replies; a connection on which that fails is closed."""
        try:
            return (yield Exchange(link, commands))  # type: ignore[no-any-return]
        except Exception as error:
            link.close()
            self._lost(link.address)
            raise meaning(self._settings.label, error, unsent=unsent) from None
        except BaseException:
            link.close()
            raise

    def _track(self, request: Track) -> Steps[Any]:
        """Read a key such that the listener is notified when it changes."""
        hears = self._hears
        if not hears:
            raise StoreUnavailable(self._settings.label, "the connection that listens is lost", unsent=True)
        address = yield from self._found(self._place.server_of(request.key))
        link = yield from self._take(address, hears)
        self.bells.track(request.mailbox, request.key, request.ref)
        try:
            kind, value = yield from self._sent(link, (("TYPE", request.key), ("GET", request.key)))
        except BaseException:
            self._disturb()  # what it tracked before, it tracks no more
            raise
        self._give(link, hears)
        if hears != self._hears:  # what was armed is gone with it
            raise StoreUnavailable(self._settings.label, "the connection that listens was lost", unsent=True)
        return b"a " + kind if isinstance(value, exceptions.ResponseError) else value

    def _scan(self, pattern: str) -> Steps[set[str]]:
        found: set[str] = set()
        for address in (yield from self._found(self._place.masters())):
            # One that is not kept: it has not learned when the server grants, and need not. A server that has
            # no slot of the prefix could not note it either.
            link = yield from self._dial(address, self._settings.access)
            cursor = 0
            try:
                while True:
                    asked = [("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)]
                    cursor, keys = self._accepted(link, (yield from self._sent(link, asked)))[0]
                    found.update(key.decode("utf-8", "replace") for key in keys)
                    cursor = int(cursor)
                    if not cursor:
                        break
            finally:
                link.close()
        return found

    # Connections.

    def _found(self, finding: Finding[T]) -> Steps[T]:
        """Drive what looks for a server."""
        reply: Any = None
        try:
            while True:
                reply = yield from self._answer(finding.send(reply))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            said = f"what it says of its servers is not understood: {error}"
            raise StoreUnavailable(self._settings.label, said, unsent=True) from None

    def _answer(self, ask: Ask, *before: Words) -> Steps[Any]:
        link = None
        try:
            link = yield from self._dial(ask.address, ask.access or self._settings.access)
            *_, reply = yield from self._sent(link, (*before, ask.words), unsent=True)
        except StoreError as error:
            return error
        finally:
            if link is not None:
                link.close()
        return meaning(self._settings.label, reply, unsent=True) if isinstance(reply, Exception) else reply

    def _take(self, address: Address, hears: int = 0) -> Steps[Any]:
        """Return a connection that is free, or a new one, which knows its server."""
        if hears and self._tracks_no_more():
            self._disturb()
        link = self._kept(address, hears)
        if link is None:
            link = yield from self._dial(address, self._settings.access)
            if hears:
                tracking = [("CLIENT", "TRACKING", "ON", "REDIRECT", hears)]
                self._accepted(link, (yield from self._sent(link, tracking, unsent=True)), hears)
            else:
                yield from self._learn(link)
        elif self._fails_over and not hears and boot_time() - link.used_at > IDLE_S:
            yield from self._learn(link)
        return link

    def _kept(self, address: Address, hears: int) -> Any:
        """Return the free connection that was used last and is still good; None if there is none."""
        free = self._free.get((address, hears), ())
        while free:
            try:
                link = free.pop()
            except IndexError:  # another thread took the last one
                break
            if link.good():
                return link
            link.close()
        return None

    def _done(self, link: Any, replies: Sequence[Any]) -> None:
        """Keep a connection, unless the server's clock was set back since it has learned when that grants."""
        if any(_waits_ms(reply) > self._settings.grace_s * 1000 for reply in replies):
            link.close()
        else:
            self._give(link)

    def _give(self, link: Any, hears: int = 0) -> None:
        """Keep a connection that has answered all it was asked."""
        link.used_at = boot_time()
        self._free.setdefault((link.address, hears), deque()).append(link)
        if self.closed or (hears and hears != self._hears):  # it may have been meanwhile
            self._drain(link.address, hears)

    def _drain(self, address: Address, hears: int = 0) -> None:
        """Close the free connections to a server."""
        while (link := self._kept(address, hears)) is not None:
            link.close()

    def _lost(self, address: Address) -> None:
        """Look for the server anew; after a failure the other connections are probably dead as well."""
        self._place.lost(address)
        self._drain(address)

    def _weigh(self, error: Exception, address: Address, hears: int = 0) -> None:
        """Note what a server says of itself: it is no master, or it does not have this listener."""
        elsewhere = _word(error) in _ELSEWHERE
        if elsewhere:
            self._lost(address)
        if elsewhere or (_said(error) == _NO_LISTENER and hears == self._hears):  # else another listens now
            self._left = address

    def close(self) -> None:
        """Close what is free; what is in use finds its end, and is closed by those that use it."""
        self.closed = True
        for address, hears in list(self._free):
            self._drain(address, hears)
        while True:
            try:
                links = list(self._links)
            except RuntimeError:  # another thread has added one meanwhile
                continue
            break
        for link in links:
            link.hang_up()

    def _dial(self, address: Address, access: Access) -> Steps[Any]:
        try:
            link = yield Dial(address, access, self._links)
        except Exception as error:
            self._place.lost(address)
            raise meaning(self._settings.label, error, unsent=True) from None
        if self.closed:  # it may have been meanwhile
            link.close()
            raise StoreUnavailable(self._settings.label, "this connection is closed", unsent=True)
        return link

    def _learn(self, link: Any) -> Steps[None]:
        """Learn which incarnation of the server this is, and from when on it grants."""
        grace_us = int(self._settings.grace_s * 1e6)
        if not grace_us:
            return
        asked = [("INFO", "server"), ("INFO", "replication"), ("TIME",)]
        said = self._accepted(link, (yield from self._sent(link, asked, unsent=True)))
        known = facts(said[0]) | facts(said[1])
        self._expect(link, known, "role", "uptime_in_seconds", "master_replid2")
        now_us = int(said[2][0]) * 1_000_000 + int(said[2][1])
        if known["role"] != "master":
            link.close()
            self._lost(link.address)
            self._left = link.address
            raise StoreUnavailable(self._settings.label, "the server is a replica now", unsent=True)
        up_s = int(known["uptime_in_seconds"])  # rounded down; by a clock that may have been set back
        if known["master_replid2"] == NEVER and up_s >= 0:
            since_us = min(now_us - (up_s - 1) * 1_000_000, now_us)
        else:
            self._expect(link, known, "run_id", "master_replid")
            key = f"{self._settings.prefix}~life:{self._place.tag_of(link.address)}"
            life = f"{known['run_id']}:{known['master_replid']}"
            since_us = int((yield from self._noted(link, ("EVAL", SINCE, "1", key, life, str(now_us)))))
        link.not_before_us = since_us + grace_us

    def _expect(self, link: Any, known: Mapping[str, str], *names: str) -> None:
        """Refuse a server that does not say these."""
        missing = [one for one in names if one not in known]
        if missing:
            link.close()
            said = f"its INFO does not say {' and '.join(missing)}, by which it is known when it grants"
            raise StoreRefused(self._settings.label, said)

    def _noted(self, link: Any, words: tuple[str, ...]) -> Steps[Any]:
        """Return the reply about a key that the server should have; its slot may have just gone elsewhere."""
        (reply,) = yield from self._sent(link, (words,), unsent=True)
        if isinstance(reply, Exception):
            elsewhere = self._place.redirected(_said(reply), link.address)
            if elsewhere is not None:
                asking = (("ASKING",),) if elsewhere.once else ()
                try:
                    reply = yield from self._answer(Ask(elsewhere.address, words), *asking)
                except BaseException:
                    link.close()
                    raise
        return self._accepted(link, [reply])[0]

    def _accepted(self, link: Any, replies: list[Any], hears: int = 0) -> list[Any]:
        """Return replies, unless one is an error; then nothing of the request has been sent."""
        for reply in replies:
            if isinstance(reply, Exception):
                link.close()
                self._weigh(reply, link.address, hears)
                raise meaning(self._settings.label, reply, unsent=True)
        return replies

    # The listener.

    def subscribed(self) -> Steps[Any]:
        """Return a connection that receives the session's notifications."""
        address = yield from self._found(self._place.server_of(self.channel))
        link = yield from self._dial(address, self._settings.access)
        asked: list[Words] = [("CLIENT", "ID"), ("SUBSCRIBE", self.channel), ("SUBSCRIBE", INVALIDATE)]
        replies = yield from self._sent(link, asked, unsent=True)
        link.hears = self._accepted(link, replies)[0]
        return link

    def listen(self, link: Any = None) -> Steps[None]:
        """Listen on a connection (None: on a new one), and on others when it is lost, until closed."""
        while True:
            if link is None:
                link = yield from self._reconnected()
                self._disturb()
            if link is None:
                return
            self._hears, self._left = link.hears, None
            broken = False
            try:
                yield from self._hear(link)
            except OSError:
                pass
            except Exception:  # what arrives is no message: the server, or something in between, is broken
                broken = True
            finally:
                self._hears = 0
                link.close()
                self._disturb()
            link = None
            if broken and not self.closed:
                yield Pause(RETRY_S)

    def _hear(self, link: Any) -> Steps[None]:
        """Notify of what arrives, until nothing does, and a ping is not answered either.

        A former master that is cut off from the others answers for as long as it lives: once requests have
        found another server, or what has the same name by now, that one is listened to.
        """
        within_s, asked = self._settings.silence_s, False
        looked_at = boot_time()
        while not self.closed:
            message = yield Hear(link, within_s)
            if boot_time() - looked_at >= within_s:
                looked_at = boot_time()
                if link.address == self._left or self._place.known(self.channel) not in (None, link.address):
                    return
                if self._tracks_no_more():
                    self._disturb()
            if message is not None:
                self.bells.hear(message)
                asked = False
            elif asked:
                return
            else:
                yield Exchange(link, (("PING",),), 0)
                asked = True

    def _tracks_no_more(self) -> bool:
        """Whether a connection for which the server tracks keys has ended: it notifies of these no more."""
        tracking = (free for (_, hears), free in list(self._free.items()) if hears)
        return any(not link.good() for free in tracking for link in list(free))

    def _reconnected(self) -> Steps[Any]:
        while not self.closed:
            try:
                return (yield from self.subscribed())
            except StoreError:
                yield Pause(RETRY_S)
        return None

    def _disturb(self) -> None:
        for address, hears in list(self._free):
            if hears:  # the server redirects to what is lost
                self._drain(address, hears)
        self._disturbed_at = boot_time()
        self.bells.disturb()


def key_of(part: Any) -> str:
    """Return the key that decides which server of a cluster is asked."""
    return part.keys[0] if isinstance(part, Run) else part.key


def _words(part: Run | Command, link: Link, script: str) -> Words:
    if isinstance(part, Command):
        return part.words
    kind = "EVALSHA" if script is SHA else "EVAL"
    return (kind, script, len(part.keys), *part.keys, link.not_before_us, *part.words)


_WORDS: dict[type[Exception], str] = {
    exceptions.MovedError: "MOVED",
    exceptions.AskError: "ASK",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.OutOfMemoryError: "OOM",
}
"""The first words of errors that redis-py takes off for its classes; which it has depends on its version."""
_ELSEWHERE = {"READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}
"""What a server says that is no master, or not yet."""
_UNDONE = {*_ELSEWHERE, "MOVED", "ASK", "TRYAGAIN", "NOSCRIPT", "BUSY", "NOREPLICAS"}
"""What says that nothing was done: ask again."""
_FULL = {"OOM", "MISCONF"}
_NO_LISTENER = "The client ID you want redirect to does not exist"
_DENIED = ("ACL failure in script", "The user executing the script can't")
"""So begins what a script was not permitted to do: since Redis 7.2, and in 7.0; Redis 6 says ``NOPERM``."""

_IN_SCRIPT = "Error running script"
"""So begins, before Redis 7, what a command in a script was refused with; that is behind the last ``: -``."""


def _said(error: Exception) -> str:
    """Return what the server said, in full."""
    word, said = _WORDS.get(type(error)), str(error) or type(error).__name__
    return said if word is None or said.startswith(word) else f"{word} {said}"


def _word(error: Exception) -> str:
    said = _said(error)
    if said.removeprefix("ERR ").startswith(_IN_SCRIPT):
        said = said.rpartition(": -")[2]
    return said.partition(" ")[0]


def _waits_ms(reply: Any) -> int:
    """Return for how long a run is to wait until the server grants again, if it says so."""
    says_so = isinstance(reply, list) and reply[:1] == [STARTING]
    return reply[1] if says_so else 0


def meaning(label: str, error: Exception, *, unsent: bool = False) -> StoreError:
    """Return the error of the package for one of redis-py, of the system, or of the server's."""
    if isinstance(error, StoreError):
        if isinstance(error, StoreUnavailable):
            error.unsent = error.unsent or unsent
        return error
    said, word = _said(error), _word(error)
    denied = isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError)
    if denied or word == "NOPERM" or said.removeprefix("ERR ").startswith(_DENIED):
        return StoreDenied(label, said)
    if word in _FULL:
        return StoreFull(label, said)
    if word in _UNDONE or said == _NO_LISTENER:
        return StoreUnavailable(label, said, unsent=True)
    if isinstance(error, exceptions.ResponseError):
        return StoreRefused(label, said)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    kind = StoreUntrusted if cause is not None and refused_by_tls(cause) else StoreUnavailable
    return kind(label, describe(cause) if isinstance(cause, OSError) else said, unsent=unsent)
