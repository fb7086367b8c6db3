"""Speaking with etcd in its own protocol: gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipes.stores import grpc
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import grpc_messages as messages
from recipes.stores.etcd.wire_answers import status_error, unavailable
from recipes.stores.etcd.wires import LOGIN, Call, Json, Reply, WireError
from recipes.stores.secret import Sealed

__all__ = ["GrpcLine", "GrpcSpeaker", "GrpcStream", "GrpcWire"]

PONG_EVERY_S = 1.0
_HEADS_KEPT = 64
_STREAM_OF_ONE = "/lease/keepalive"
_SAID_NOTHING = grpc.Status(grpc.INTERNAL, "the call ended without an answer")


class _Heads:
    """The headers of calls to one server; the last ones are kept."""

    def __init__(self, endpoint: Endpoint, *, secure: bool) -> None:
        self._authority = endpoint.store
        self._secure = secure
        self._kept: dict[tuple[str, str | None], bytes] = {}

    def of(self, path: str, token: str | None) -> bytes:
        """Return the headers of a call; a token that is no legal value is a ValueError without it."""
        if path == LOGIN:
            token = None
        head = self._kept.get((path, token))
        if head is None:
            if len(self._kept) >= _HEADS_KEPT:
                self._kept.clear()
            metadata = [("hasleader", "true"), *([] if token is None else [("token", token)])]
            name = messages.METHODS[path].name
            head = grpc.head(self._authority, name, secure=self._secure, metadata=metadata)
            self._kept[path, token] = head
        return head


class GrpcLine:
    """One connection of HTTP/2, used for one batch of calls at a time; each call is a stream."""

    chatty = True

    def __init__(self, heads: _Heads) -> None:
        self._heads = heads
        self._line = grpc.Line(pong_every_s=PONG_EVERY_S)
        self._owed: dict[int, list[bytes]] = {}
        self._done: dict[int, Reply] = {}
        self.answered = False

    @property
    def usable(self) -> bool:
        """Whether it may carry another call."""
        return self._line.usable

    @property
    def owes(self) -> bool:
        """Whether a reply is still to come: a server that says farewell answers what it has taken."""
        return bool(self._owed)

    def ask(self, calls: Sequence[Call], token: str | None) -> bytes:
        """Return the calls as streams side by side: they may be carried out in any order."""
        for path, body in calls:
            message = messages.write(messages.METHODS[path].asks, body)
            self._owed[self._line.call(self._heads.of(path, token), message)] = []
        return Sealed(self.more())

    def feed(self, data: bytes) -> list[Reply]:
        """Return the replies that are complete, in the order of the calls."""
        try:
            heard = self._line.feed(data)
        except grpc.GrpcError as error:
            raise WireError(str(error)) from None
        for stream, parts, status in heard:
            self._owed[stream] += parts
            if status is not None:
                said = self._owed[stream]
                if not said and not status.code:
                    status = _SAID_NOTHING  # noqa: PLW2901
                self._done[stream] = Reply(status.code, status.message, b"".join(said[:1]))
        self.answered = self.answered or bool(data)
        replies: list[Reply] = []
        for stream in list(self._owed):
            if stream not in self._done:
                break
            del self._owed[stream]
            replies.append(self._done.pop(stream))
        return replies

    def more(self) -> bytes:
        """Return what the server lets in by now, and what it is owed itself."""
        data = bytes(self._line.outbox)
        self._line.outbox.clear()
        return data


class GrpcStream:
    """A ``Channel``: one stream of watches on a connection of its own."""

    def __init__(
        self, endpoint: Endpoint, heads: _Heads, token: str | None, only: dict[str, Any] | None
    ) -> None:
        self.endpoint = endpoint
        self.live = True
        self._method = messages.METHODS["/watch"]
        self._line = grpc.Line()
        self.outbox = self._line.outbox
        self._stream = self._line.open(heads.of("/watch", token))
        if only is not None:
            self.say(only)

    def say(self, message: dict[str, Any]) -> None:
        """Queue one message."""
        self._line.say(self._stream, messages.write(self._method.asks, message))

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return what the server says of watches; an end of the stream is an error with its status."""
        try:
            heard = self._line.feed(data)
        except grpc.GrpcError as error:
            raise WireError(f"the watch stream broke: {error}") from None
        found: list[dict[str, Any]] = []
        for _, parts, status in heard:
            try:
                found += [{"result": messages.read(self._method.answers, part)} for part in parts]
            except messages.MessageError as error:
                raise WireError(f"the watch stream sent what is no message: {error}") from None
            if status is not None:
                words = status.message or "the watch stream was closed by the server"
                found.append({"error": {"grpc_code": status.code or 14, "message": words}})
        return found


class GrpcSpeaker:
    """What is spoken with one server."""

    def __init__(self, endpoint: Endpoint, *, secure: bool) -> None:
        self._store = endpoint.store
        self.heads = _Heads(endpoint, secure=secure)

    def line(self) -> GrpcLine:
        """Return the state of a new connection."""
        return GrpcLine(self.heads)

    def meaning(self, path: str, reply: Reply) -> Json:
        """Return the document of a reply that ended well, or raise what its status says."""
        if reply.status:
            raise status_error(self._store, reply.status, reply.reason or f"gRPC status {reply.status}")
        try:
            found = messages.read(messages.METHODS[path].answers, reply.body)
        except messages.MessageError as error:
            raise unavailable(self._store, f"the reply is no message of etcd: {error}") from None
        return {"result": found} if path == _STREAM_OF_ONE else found


class GrpcWire:
    """The way by gRPC, over TLS if ``secure``."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure

    def speaker(self, endpoint: Endpoint) -> GrpcSpeaker:
        """Return what is spoken with a server."""
        return GrpcSpeaker(endpoint, secure=self._secure)

    def channel(
        self, endpoint: Endpoint, token: str | None, only: dict[str, Any] | None = None
    ) -> GrpcStream:
        """Return a new stream of watches."""
        return GrpcStream(endpoint, _Heads(endpoint, secure=self._secure), token, only)
