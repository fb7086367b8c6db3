"""What a client logs in to its store with: user and password, from options or from the URL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from recipes._run.waiting import acquire
from recipes._signals import of_a_wait
from recipes._threads import new_thread, start
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.stores.secret import Secret

__all__ = ["Asker", "Credentials", "apart"]

T = TypeVar("T")
NAMES = frozenset(("username", "password"))
"""The options."""
_WITHOUT_USERS = ("memory", "sqlite")  # an @ there belongs to a name or a path


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user, and where the password comes from; shows neither."""

    username: str = field(repr=False)
    source: Secret | Callable[[], str] = field(repr=False)
    asker: Asker[Secret] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the one asker of all connections."""
        known = self.source if isinstance(self.source, Secret) else None
        object.__setattr__(self, "asker", Asker(self.password, known))

    def password(self, store: str) -> Secret:
        """Return the password; may block if it comes from a callable.

        Raises:
            StoreDenied: The callable raised, or gave no text.
        """
        if isinstance(self.source, Secret):
            return self.source
        try:
            given: Any = _veiled(self.source())
        except BaseException as error:  # SystemExit too: it ends a thread of which nobody would know
            what = f"password() raised {type(error).__name__}, so there is nothing to log in with"
            raise StoreDenied(store, what) from error
        if not isinstance(given, Secret) or not given:
            raise StoreDenied(store, f"password() gave no text but {type(given).__name__}")
        if not _is_text(given):
            raise StoreDenied(store, "password() gave no text that can be sent")
        return given

    @classmethod
    def given(
        cls, scheme: str, options: Mapping[str, Any], *, nameless: str = "", passwordless: bool = False
    ) -> Credentials | None:
        """Return what the options say, None if they say nothing.

        Args:
            scheme: Of the store.
            options: What was given.
            nameless: The user that a password alone is for, where there is one.
            passwordless: A user may log in without a password: it is empty then.

        Raises:
            ValueError: One of the two is missing or empty, or both URL and options have them.
            TypeError: The name is no text, or the password neither text nor callable.
        """
        username, password = options.get("username"), options.get("password")
        if isinstance(username, _Misgiven):
            raise ValueError(username.says)  # noqa: TRY004 - the value is what is wrong
        if username is None and password is None:
            return None
        if nameless and username in (None, "") and password is not None:
            username = nameless
        bare = passwordless and password is None
        if username is None or (password is None and not bare):
            missing = "username" if username is None else "password"
            raise ValueError(f"{scheme}:// needs username= and password= together, and {missing}= is missing")
        if not isinstance(username, str):
            raise TypeError(f"username= is text, not {type(username).__name__}")
        if bare:
            password = ""
        elif not isinstance(password, str) and not callable(password):
            raise TypeError(f"password= is text or a callable that returns it, not {type(password).__name__}")
        for name, text in (("username", username), *(() if bare else (("password", password),))):
            if isinstance(text, str) and not (text and _is_text(text)):
                raise ValueError(f"{name}= is empty, or no text that can be sent")
        source: Any = Secret(password) if isinstance(password, str) else password
        return cls(username, source)


class Asker(Generic[T]):
    """Asks for the password where nothing waits that must not: a callable in a thread, one at a time.

    All connections with the same credentials share it, so that a callable that hangs does so in one thread.
    A call that comes while an answer is on its way gets that one.

    Args:
        find: Is called with the store's name, and returns the password, or all that there is to log in with.
        known: What that is, if nothing is to be called.
        what: Names in errors what is called.
    """

    def __init__(self, find: Callable[[str], T], known: T | None = None, what: str = "password()") -> None:
        self._find, self._known, self._what = find, known, what
        self._under_way: dict[int, _Calling] = {}

    def ask(self, store: str, done: Callable[[T | StoreDenied], None]) -> Callable[[], None]:
        """Pass the password to ``done``, or why there is none; never blocks.

        Returns:
            What to call when nobody waits for that any more; it may be called at any time.

        Raises:
            StoreUnavailable: No thread can be started to call the callable in.
        """
        if self._known is not None:
            done(self._known)
            return _nothing
        calling = self._under_way.setdefault(os.getpid(), _Calling())  # a fork has no thread of its parent's
        me = object()
        calling.waiting[me] = done  # first: a thread that ends looks at it last
        try:
            if calling.asked_by.setdefault("now", me) is me:
                start(new_thread("password", self._work, store, calling, me))
        except BaseException as error:  # an interrupt leaves a thread that has begun
            calling.forget(me)
            calling.ended(me)
            if isinstance(error, OSError):
                raise StoreUnavailable(store, str(error), unsent=True) from error
            raise
        return lambda: calling.forget(me)

    def within(self, store: str, within_s: float) -> T:
        """Return the password.

        Raises:
            StoreDenied: There is none to be had.
            StoreUnavailable: The callable has not returned in time; it goes on, and the next call gets
                what it returns then.
        """
        found: list[T | StoreDenied] = []
        answered = threading.Lock()
        answered.acquire()

        def done(answer: T | StoreDenied) -> None:
            found.append(answer)
            answered.release()

        forget = self.ask(store, done)
        try:
            in_time = acquire(answered, within_s)
        except Exception as error:
            raise of_a_wait(error) from None
        finally:
            forget()
        if not in_time:
            raise StoreUnavailable(store, f"no answer to a login in time: {self._what} has not returned")
        if isinstance(found[0], StoreDenied):
            raise found[0]
        return found[0]

    def _work(self, store: str, calling: _Calling, me: object) -> None:
        try:
            found: T | StoreDenied = self._find(store)
        except StoreDenied as denied:
            found = denied
        finally:
            calling.ended(me)
        while calling.waiting:
            try:
                _, done = calling.waiting.popitem()
            except KeyError:  # another took it, or forgot it
                break
            done(found)


@dataclass(slots=True)
class _Calling:
    """One process's call of the callable, and the callers that get its result; each step of it is atomic."""

    asked_by: dict[str, object] = field(default_factory=dict)
    waiting: dict[object, Callable[[Any], None]] = field(default_factory=dict)

    def ended(self, who: object) -> None:
        if self.asked_by.get("now") is who:
            self.asked_by.pop("now", None)

    def forget(self, who: object) -> None:
        self.waiting.pop(who, None)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Misgiven:
    """Credentials that cannot be used; said only where no secret is in sight of a traceback."""

    says: str


def apart(url: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the URL without its user and password, and the options with them, veiled; never raises."""
    found = {name: _veiled(value) if name == "password" else value for name, value in options.items()}
    scheme, mark, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not mark or "@" not in rest or scheme.lower() in _WITHOUT_USERS:
        return url, found
    authority = rest
    for end in "/?#":
        authority = authority.partition(end)[0]
    userinfo, _, hosts = authority.rpartition("@")
    said = ""
    if "@" in rest[len(authority) :]:
        said = (
            "user and password are percent-encoded in a URL (%2F for /, %40 for @); or pass them as options"
        )
    elif "@" in userinfo and "," in userinfo:
        said = (
            "user and password stand once, before the first server, and are percent-encoded (%40 for @,"
            " %2C for a comma); or pass them as options"
        )
    if said:
        return f"{scheme}://***", {**found, "username": _Misgiven(said)}
    name, colon, password = userinfo.partition(":")
    twice = found.get("username") is not None or (colon and found.get("password") is not None)
    found["username"] = (
        _Misgiven("user and password stand both in the URL and in options; give them once")
        if twice
        else unquote(name, errors="surrogateescape")
    )
    if colon:
        found["password"] = Secret(unquote(password, errors="surrogateescape"))
    return f"{scheme}://{hosts}{rest[len(authority) :]}", found


def _veiled(value: Any) -> Any:
    return Secret(value) if isinstance(value, str) else value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
