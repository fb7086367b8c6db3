"""As much of an object store as conditional writes take: S3's own words, over HTTP on loopback."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["ObjectStore"]


class ObjectStore:
    """A server with objects in memory, by their paths; a context manager starts and ends it.

    As S3's, an ETag is the digest of the content: the same content again has the same one.

    Attributes:
        url: Where it is.
        before_writing: Called before a write is judged.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.before_writing: Callable[[], None] = lambda: None
        self.lock = threading.Lock()
        store = self

        class Handler(_Handler):
            objects = store

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])

    def put(self, path: str, body: bytes, only: str | None, only_absent: bool) -> int:
        """Write on conditions; returns the status."""
        self.before_writing()
        with self.lock:
            found = self.objects.get(path)
            if only is not None and found is None:
                return 404
            if (only_absent and found is not None) or (only is not None and only != etag(found or b"")):
                return 412
            self.objects[path] = body
            return 200

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ObjectStore

    def do_GET(self) -> None:
        body = self.objects.objects.get(self.path)
        if body is None:
            self._refuse(404, "NoSuchKey")
        else:
            self._answer(200, body, ETag=etag(body))

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.objects.put(
            self.path, body, self.headers["If-Match"], self.headers["If-None-Match"] == "*"
        )
        if status == 200:
            self._answer(200, b"", ETag=etag(body))
        else:
            self._refuse(status, {404: "NoSuchKey", 412: "PreconditionFailed"}[status])

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def etag(body: bytes) -> str:
    """Return the entity tag of a content."""
    return f'"{hashlib.md5(body).hexdigest()}"'
