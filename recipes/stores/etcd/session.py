"""A lean session to give to ``etcd3gw.Etcd3Client(session=...)``.

It posts like a requests session, in half the time, and each post is bounded in all. What fails is raised as
an error of this package, which etcd3gw lets through.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import etcd3gw
import etcd3gw.exceptions

from recipes.stores.etcd import gateway_json
from recipes.stores.etcd.gateway import PREFIX
from recipes.stores.etcd.pool import Pipeline, Pool, Server, once
from recipes.stores.etcd.requests import Post
from recipes.stores.etcd.wire_answers import checked, error_of, glimpse, unavailable
from recipes.stores.etcd.wires import Json, Reply

if TYPE_CHECKING:
    import requests

__all__ = ["GatewayServer", "LeanResponse", "LeanSession"]

_FOREVER_S = 86_400.0


class LeanResponse:
    """What ``post`` returns: the part of a requests response that etcd3gw reads."""

    __slots__ = ("_store", "content", "reason", "status_code")

    def __init__(self, reply: Reply, store: str) -> None:
        self.status_code = reply.status
        self.reason = f"{reply.status} {reply.reason}"  # all that its error will say of either
        self.content = reply.body
        self._store = store

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body's document."""
        try:
            return gateway_json.read(self.content)
        except ValueError:
            raise unavailable(self._store, f"the reply is not JSON: {glimpse(self.content)}") from None


class LeanSession:
    """Post to one server over the connections of a pool; threads may share it."""

    def __init__(self, pool: Pool, *, secure: bool) -> None:
        self._pool = pool
        self._origin = f"{'https' if secure else 'http'}://{pool.endpoint.store}{PREFIX}/"

    def post(
        self,
        url: str,
        *,
        json: Any = None,
        timeout: float | None = None,
        deadline: float | None = None,
        pipeline: Pipeline | None = None,
    ) -> LeanResponse:
        """Post ``json`` and return the response, within ``timeout`` seconds and before ``deadline``.

        ``deadline`` is an instant of ``time.monotonic``. With ``pipeline`` the request has been
        sent already, and this takes its reply.

        Raises:
            ValueError: The URL is of another server.
            StoreUnavailable: No whole reply came in time.
        """
        if not url.startswith(self._origin):
            raise ValueError(f"this session posts to {self._origin} only")
        until = time.monotonic() + (_FOREVER_S if timeout is None else timeout)
        until = until if deadline is None else min(until, deadline)
        if pipeline is None:
            reply = once(self._pool, (url[len(self._origin) - 1 :], json), until)
        else:
            reply = pipeline.next(until)
        return LeanResponse(reply, self._pool.endpoint.store)


class GatewayServer(Server):
    """The same, asked through etcd3gw."""

    def __init__(self, pool: Pool, *, secure: bool) -> None:
        super().__init__(pool)
        self._client = etcd3gw.Etcd3Client(
            host=pool.endpoint.host,
            port=pool.endpoint.port,
            protocol="https" if secure else "http",
            api_path="/v3/",
            session=cast("requests.Session", LeanSession(pool, secure=secure)),
        )

    def reply(self, post: Post, deadline: float, pipeline: Pipeline | None = None) -> Json:
        """Make one unary call, or take the reply of one that was sent; etcd3gw's exceptions become ours."""
        client, store = self._client, self.pool.endpoint.store
        url = client.get_url(post.path)
        try:
            found = client.post(url, json=post.body, deadline=deadline, pipeline=pipeline)
        except etcd3gw.exceptions.Etcd3Exception as error:
            status = " ".join(map(str, error.args))
            raise error_of(store, status, error.detail_text or "") from None  # which says all that it does
        return checked(store, found)
