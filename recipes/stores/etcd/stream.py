"""One HTTP exchange that carries watches: messages in, bytes out; bytes in, documents out. No I/O.

``POST /v3/watch`` with a chunked body and ``Connection: close`` is bidirectional: the
gateway answers while the request is still being sent, for as long as one likes
(without ``Connection: close`` it waits for the end of the body first). Where a proxy
withholds unfinished bodies, a channel carries a complete body instead, and with it a
single watch.
"""

from __future__ import annotations

from typing import Any

import h11

from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import gateway_json
from recipes.stores.etcd.wire import opening
from recipes.stores.etcd.wires import RefusedError, WireError

__all__ = ["Documents", "Stream"]

_PATH = "/v3/watch"
_LONGEST = 16 * 1024 * 1024


class Documents:
    """Cut a body into JSON documents, one a line; a part may end anywhere."""

    def __init__(self) -> None:
        self._part = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the documents that are complete now; WireError for what is none."""
        self._part += data
        if b"\n" not in data:
            if len(self._part) > _LONGEST:
                raise WireError("a watch document has no end")
            return []
        *lines, rest = bytes(self._part).split(b"\n")
        self._part = bytearray(rest)
        return [self._load(line) for line in lines if line.strip()]

    @staticmethod
    def _load(line: bytes) -> dict[str, Any]:
        try:
            found = gateway_json.read(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise WireError(f"the watch stream sent what is no JSON object: {line[:80]!r}")
        return found


class Stream:
    """A `Channel` by the gateway; the multiplexer fills ``outbox``, the API sends it.

    Attributes:
        endpoint: The server that the connection goes to.
        outbox: What is still to be sent.
        live: False once the multiplexer has no more use for it.
    """

    __slots__ = ("_docs", "_h11", "_refusal", "_status", "endpoint", "live", "outbox")

    def __init__(self, endpoint: Endpoint, token: str | None, only: dict[str, Any] | None = None) -> None:
        """Begin the request: open for many messages, or complete with ``only`` one."""
        self.endpoint = endpoint
        self.outbox = bytearray()
        self.live = True
        self._h11 = h11.Connection(h11.CLIENT)
        self._docs = Documents()
        self._status = 0
        self._refusal = b""
        body = b"" if only is None else _encode(only)
        framing = ("Transfer-Encoding", "chunked") if only is None else ("Content-Length", str(len(body)))
        self._put(opening(endpoint.store, _PATH, token, [("Connection", "close"), framing]))
        if only is not None:
            self._put(h11.Data(data=body))
            self._put(h11.EndOfMessage())

    def say(self, message: dict[str, Any]) -> None:
        """Queue one message, as a chunk of its own."""
        self._put(h11.Data(data=_encode(message)))

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the documents in what arrived.

        Raises:
            WireError: The stream is over (``b""`` is the end of the connection) or no stream.
            RefusedError: The reply was an error; it has the status and the body.
        """
        try:
            self._h11.receive_data(data)
            return self._events()
        except h11.RemoteProtocolError as error:
            what = f"broke: {error}" if data else "was closed by the server"
            raise WireError(f"the watch stream {what}") from None

    def _events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return found
            if isinstance(event, h11.Response):
                self._status = event.status_code
            elif isinstance(event, h11.Data):
                if self._status == 200:
                    found += self._docs.feed(bytes(event.data))
                else:
                    self._refusal += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and not found:
                if self._status not in (0, 200):
                    raise RefusedError(self._status, self._refusal)
                raise WireError("the watch stream was closed by the server")
            elif isinstance(event, h11.EndOfMessage):
                # What came with the end is served first; the end shows again at the next feed.
                found.append(_ENDED)
                return found

    def _put(self, event: h11.Event) -> None:
        self.outbox += self._h11.send(event) or b""


_ENDED: dict[str, Any] = {"error": {"grpc_code": 14, "message": "the watch stream was closed by the server"}}


def _encode(message: dict[str, Any]) -> bytes:
    return gateway_json.write(message) + b"\n"
