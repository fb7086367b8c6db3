"""What kazoo raises, in this package's words.

Three questions decide: was there an answer at all (no: ``StoreUnavailable``), would
another try help (no: ``StoreRefused``), does a protocol handle it (then it is a
``ZooKeeperError`` of its own). A test goes through every exception of kazoo.
"""

from __future__ import annotations

from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import ForceRetryError, RetryFailedError

from recipes.errors import StoreDenied, StoreError, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.requests import (
    BadVersion,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    ZooKeeperError,
)

__all__ = ["error_of", "translated"]

_ANSWERS: dict[type[BaseException], type[ZooKeeperError]] = {
    kazoo.BadVersionError: BadVersion,
    kazoo.NoNodeError: NoNode,
    kazoo.NodeExistsError: NodeExists,
    kazoo.SessionExpiredError: SessionExpired,
    kazoo.UnknownSessionError: SessionExpired,  # it ended a moment ago, and the connection ends next
}

_NO_ANSWER: tuple[type[BaseException], ...] = (
    kazoo.CancelledError,
    kazoo.ConnectionClosedError,  # a subclass of SessionExpiredError, and no word of the server's
    kazoo.ConnectionDropped,
    kazoo.ConnectionLoss,
    kazoo.LockTimeout,  # of a recipe of kazoo's that is not used here
    kazoo.NotReadOnlyCallError,  # this server has lost its quorum; another may have one
    kazoo.OperationTimeoutError,
    kazoo.RequestTimeoutError,
    kazoo.SessionMovedError,  # the request came over a connection that another has replaced
    kazoo.ThrottledOpError,
    kazoo.WriterNotClosedException,
    kazoo.ZookeeperStoppedError,
    KazooTimeoutError,
    RetryFailedError,
    ForceRetryError,
)

_REFUSALS: dict[type[BaseException], tuple[type[StoreError], str]] = {
    kazoo.AuthFailedError: (StoreDenied, "the credentials were not accepted"),
    kazoo.NoAuthError: (
        StoreDenied,
        "no permission: the ACL of a node is for others, or for another password",
    ),
    kazoo.SASLException: (StoreDenied, "SASL failed on this side"),
    kazoo.SessionClosedRequireSaslError: (StoreDenied, "the server asks for credentials"),
    kazoo.BadArgumentsError: (StoreRefused, "the server calls the arguments bad"),
    kazoo.ConfigurationError: (StoreRefused, "kazoo's configuration is not valid"),
    kazoo.EphemeralOnLocalSessionError: (
        StoreRefused,
        "the session is local to one server and cannot make ephemeral nodes",
    ),
    kazoo.InvalidACLError: (
        StoreRefused,
        "the ACL is not valid on this server, or it names the creator and nobody has logged in",
    ),
    kazoo.MarshallingError: (StoreRefused, "the server could not read the request"),
    kazoo.NoChildrenForEphemeralsError: (StoreRefused, "the parent is an ephemeral node"),
    kazoo.UnimplementedError: (
        StoreRefused,
        "the server does not know this request (ZooKeeper 3.5 or later is needed)",
    ),
    kazoo.QuotaExceededError: (StoreFull, "a quota is used up"),
}


def error_of(code: int) -> Exception:
    """Return what kazoo makes of an error's number; of one that it does not know it makes the end of all."""
    kind: type[Exception] | None = kazoo.EXCEPTIONS.get(code)
    return kazoo.ZookeeperError(f"error {code}, which kazoo does not know") if kind is None else kind()


def translated(error: BaseException, store: str) -> Exception:
    """Return what ``error``, raised by kazoo, means; ``store`` names the servers."""
    if isinstance(error, MultiFailed):
        return _translated_part(error, store)
    kind = type(error)
    said = f" ({error})" if str(error) else ""
    if issubclass(kind, _NO_ANSWER):
        return StoreUnavailable(store, f"{kind.__name__}{said}")
    for known, answer in _ANSWERS.items():
        if issubclass(kind, known):
            return answer(*error.args)
    for known, (refused, words) in _REFUSALS.items():
        if issubclass(kind, known):
            return refused(store, f"{words}{said}")
    if issubclass(kind, kazoo.KazooException):
        other = ZooKeeperError(f"{kind.__name__}{said}")
        other.code = getattr(error, "code", 0)
        return other
    # A reply that kazoo could not decode, for one: what was asked may have been done.
    return StoreUnavailable(store, f"{kind.__name__}{said}")


def _translated_part(failed: MultiFailed, store: str) -> Exception:
    """Return what the number of a part's error means, and which part it was if a protocol handles that."""
    error = translated(error_of(failed.code), store)
    if isinstance(error, ZooKeeperError) and not isinstance(error, SessionExpired):
        return MultiFailed(failed.part, error)
    return error
