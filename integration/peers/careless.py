"""A lock with the mistakes of the field, for checks that none of the peers fails: they have to be able to.

Each of its mistakes was seen somewhere: the key belongs to the session and not to the attempt, release
deletes by name, a watch is made by etcd3gw's watcher, and what it does not know it trips over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import etcd3gw

from integration.peers.stage import PATIENCE_S
from integration.peers.subjects import TTL_S, Handle, Subject

__all__ = ["Careless"]


class Careless(Subject):
    """The lock recipe of etcd, as one writes it on an afternoon."""

    label = "a careless lock"
    backend = "etcd"
    shares = False

    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        host, _, port = address.partition(":")
        self.client = etcd3gw.Etcd3Client(host, int(port), api_path="/v3/", timeout=PATIENCE_S)
        self.session = self.client.lease(int(ttl_s))
        self._prefix = prefix

    def lock(self, name: str) -> Handle:
        return _CarelessHandle(self, f"{self._prefix}/{name}/")

    @property
    def lease(self) -> str:
        """The lease of its session."""
        return str(self.session.id)

    def close(self) -> None:
        self.client.session.close()


class _CarelessHandle(Handle):
    def __init__(self, owner: Careless, base: str) -> None:
        self._client, self._session, self._base = owner.client, owner.session, base
        self.lease = owner.lease
        self._held = False
        self._own = f"{base}{int(self.lease):x}"

    def acquire(self, timeout: float | None) -> bool:
        while ahead := self._ahead():
            gone = threading.Event()
            self._watch(ahead[-1], gone)
            if not gone.wait(timeout):
                self._client.delete(self._own)
                return False
        self._held = True
        return True

    def try_acquire(self) -> bool:
        self._held = not self._ahead()
        if not self._held:
            self._client.delete(self._own)
        return self._held

    def release(self) -> None:
        self._client.delete_prefix(self._base)

    def says_held(self) -> bool:
        return self._held

    def inside(self, body: Callable[[], None]) -> None:
        self.acquire(None)
        body()
        self.release()

    def _ahead(self) -> list[bytes]:
        """Put the own key if it is not there, and list the keys that came before."""
        self._client.create(self._own, "", lease=self._session)
        found = self._client.get_prefix(self._base, sort_order="ascend", sort_target="create")
        keys = [meta["key"] for _, meta in found if not meta["key"].startswith(f"{self._base}W-".encode())]
        assert all(int(key[len(self._base) :], 16) for key in keys), "a lease is never 0"
        return keys[: keys.index(self._own.encode())]

    def _watch(self, key: bytes, gone: threading.Event) -> None:
        events, _ = self._client.watch(key.decode())

        def follow() -> None:
            for event in events:
                if event.get("type") == "DELETE":
                    return gone.set()
            return None

        threading.Thread(target=follow, daemon=True).start()
        if not self._client.get(key.decode()):
            gone.set()
