"""A scripted HTTP server on loopback, mailboxes, and one way to drive both APIs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import select
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import uvloop

from recipes._contract.wakeups import Event
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.tasks import AsyncEtcdConnection

PEM = Path(__file__).with_name("loopback.pem")
HEADER = {"cluster_id": "1", "member_id": "2", "revision": "7", "raft_term": "2"}


class HungUp(Exception):
    """The client closed the connection."""


class Peer:
    """One accepted connection, from the server's side."""

    def __init__(self, sock: socket.socket, stop: threading.Event) -> None:
        self.sock = sock
        self.stop = stop
        self._buffer = b""

    def request(self) -> tuple[str, dict[str, str], Any]:
        """Return path, headers and document of the next request; of an open body, nothing yet."""
        head = self._until(b"\r\n\r\n").decode()
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if "content-length" not in headers:
            return first.split(" ")[1], headers, None
        return first.split(" ")[1], headers, json.loads(self._exactly(int(headers["content-length"])))

    def waits_to_be_read(self, timeout_s: float) -> bool:
        """Whether something has come, or comes within this time, that was not read."""
        if self._buffer or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            return True
        try:
            return bool(select.select([self.sock], [], [], timeout_s)[0])
        except ValueError:  # it was reset meanwhile
            raise HungUp from None

    def chunk(self) -> Any:
        """Return the document in the next chunk."""
        size = int(self._until(b"\r\n"), 16)
        return json.loads(self._exactly(size + 2))

    def answer(self, document: Any, status: str = "200 OK", headers: str = "") -> None:
        """Send a whole reply."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        length = f"Content-Length: {len(body)}"
        self.sock.sendall(f"HTTP/1.1 {status}\r\n{headers}{length}\r\n\r\n".encode() + body)

    def begin(self) -> None:
        """Send the head of a stream."""
        self.sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def say(self, *results: Any, wrap: bool = True) -> None:
        """Send documents in one chunk."""
        lines = b"".join(json.dumps({"result": r} if wrap else r).encode() + b"\n" for r in results)
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(lines), lines))

    def created(self, message: Any, revision: int = 7) -> int:
        """Confirm a create, and return its number."""
        number: int = message["create_request"]["watch_id"]
        self.say({"header": {**HEADER, "revision": str(revision)}, "watch_id": str(number), "created": True})
        return number

    def gone(self, number: int) -> None:
        """Tell of a deletion."""
        self.say({"header": HEADER, "watch_id": str(number), "events": [{"type": "DELETE", "kv": {}}]})

    def hang(self) -> None:
        """Say nothing until the test is over."""
        self.stop.wait(10)

    def reset(self) -> None:
        """Close with a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def ended(self) -> bool:
        """Wait until the client has closed the connection."""
        with contextlib.suppress(OSError):
            while self.sock.recv(65536):
                pass
        return True

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found + mark

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _more(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise HungUp
        self._buffer += data


class Server:
    """Serve each connection by ``script(peer, number)`` in a thread of its own."""

    def __init__(self, script: Callable[[Peer, int], None], tls: bool = False) -> None:
        self._script = script
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(PEM)
            self._context.set_alpn_protocols(["h2", "http/1.1"])
        self._stop = threading.Event()
        self._sock = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._sock.getsockname()[1]
        self.connections = 0
        self.failures: list[BaseException] = []
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._threads[0].join(5)
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()
        assert not self.failures

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            self._peers.append(sock)
            self._threads.append(threading.Thread(target=self._serve, args=(sock, self.connections)))
            self.connections += 1
            self._threads[-1].start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                self._peers.append(sock)
            self._script(Peer(sock, self._stop), number)
        except (HungUp, OSError):
            pass
        except BaseException as error:
            self.failures.append(error)
        finally:
            sock.close()


class Box:
    """A mailbox for either API."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.arrived: asyncio.Queue[Event] = asyncio.Queue()

    def post(self, event: Event) -> None:
        self.events.put(event)
        self.arrived.put_nowait(event)


class BlockingApi:
    """Drive the blocking connection."""

    def __init__(self, ports: list[int], **options: Any) -> None:
        self.connection: Any = EtcdConnection([("127.0.0.1", port) for port in ports], **options)
        self.multiplexer = self.connection._reader._multiplexer

    def ask(self, request: Any, timeout_s: float = 5.0) -> Any:
        return self.connection.ask(request, timeout_s)

    def event(self, box: Box) -> Event:
        return box.events.get(timeout=5)

    def forget(self, box: Any) -> None:
        self.connection.forget(box)

    def until(self, event: threading.Event) -> bool:
        return event.wait(5)

    def close(self) -> None:
        self.connection.close()

    def end(self) -> None:
        self.close()


class AsyncApi:
    """Drive the asyncio connection on a loop of its own, which runs only while something is awaited."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)

    def __init__(self, ports: list[int], **options: Any) -> None:
        self.runner = asyncio.Runner(loop_factory=self.new_loop)
        self.connection: Any = AsyncEtcdConnection([("127.0.0.1", port) for port in ports], **options)
        self.multiplexer = self.connection._watching._multiplexer

    def ask(self, request: Any, timeout_s: float = 5.0) -> Any:
        return self.runner.run(self.connection.ask(request, timeout_s))

    def event(self, box: Box) -> Event:
        return self.runner.run(asyncio.wait_for(box.arrived.get(), 5))

    def forget(self, box: Any) -> None:
        async def forget() -> None:
            self.connection.forget(box)

        self.runner.run(forget())

    def until(self, event: threading.Event) -> bool:
        async def wait() -> bool:
            return await asyncio.to_thread(event.wait, 5)

        return self.runner.run(wait())

    def close(self) -> None:
        self.runner.run(self.connection.close())

    def end(self) -> None:
        self.close()
        self.runner.close()


class UvloopApi(AsyncApi):
    """Drive the asyncio connection on a loop of uvloop's."""

    new_loop = staticmethod(uvloop.new_event_loop)


def trusting() -> ssl.SSLContext:
    """Return a context that trusts the fake server's certificate."""
    return ssl.create_default_context(cafile=str(PEM))
