"""Speaking with etcd's gateway: JSON in HTTP/1.1."""

from __future__ import annotations

from collections.abc import Sequence

from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import gateway_json
from recipes.stores.etcd.wire import Dialect, Exchange, LaterExchange
from recipes.stores.etcd.wire_answers import document, error_of
from recipes.stores.etcd.wires import Call, Json, Reply, WireError
from recipes.stores.secret import Sealed

__all__ = ["GatewaySpeaker", "HttpLine"]

PREFIX = "/v3"


class HttpLine:
    """One connection of HTTP/1.1; replies come in the order of the requests."""

    chatty = False

    def __init__(self, dialect: Dialect) -> None:
        self.usable = True
        self._dialect = dialect
        self._exchange: Exchange = Exchange()
        self._owed = 0

    @property
    def answered(self) -> bool:
        """Whether the server has sent a reply."""
        return type(self._exchange) is LaterExchange

    @property
    def owes(self) -> bool:
        """Whether a reply is still to come."""
        return self.usable and self._owed > 0

    def ask(self, calls: Sequence[Call], token: str | None) -> bytes:
        """Return the requests, one behind the other."""
        request, write = self._dialect.request, gateway_json.write
        self._owed += len(calls)
        return Sealed(b"".join([request(PREFIX + path, write(body), token) for path, body in calls]))

    def feed(self, data: bytes) -> list[Reply]:
        """Cut what arrived into replies."""
        replies: list[Reply] = []
        while self._owed:
            try:
                reply = self._exchange.feed(data)
            except WireError:
                if not replies:
                    raise
                break  # those before it were whole
            if reply is None:
                return replies
            self._exchange = LaterExchange()
            self._owed -= 1
            replies.append(reply)
            data = reply.rest
            if not reply.reusable:
                break
            if not data:
                return replies
        self.usable = False  # closed, or more than was asked for
        return replies

    def more(self) -> bytes:
        """Return nothing: a request is sent whole."""
        return b""


class GatewaySpeaker:
    """What is spoken with the gateway of one server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._store = endpoint.store
        self._dialect = Dialect(endpoint.store)

    def line(self) -> HttpLine:
        """Return the state of a new connection."""
        return HttpLine(self._dialect)

    def meaning(self, path: str, reply: Reply) -> Json:
        """Return the document of a reply of status 200, or raise what it says."""
        if reply.status != 200:
            raise error_of(self._store, f"{reply.status} {reply.reason}", reply.body)
        return document(self._store, reply.body)
