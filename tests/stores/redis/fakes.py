"""A scripted Redis on loopback, and one way to drive both APIs."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import uvloop

from recipes.stores.redis.access import Access
from recipes.stores.redis.blocking import RedisConnection
from recipes.stores.redis.places import One
from recipes.stores.redis.requests import Command, Listen, Run, Sure
from recipes.stores.redis.tasks import AsyncRedisConnection
from recipes.stores.redis.wire import Settings
from tests.stores.etcd.fakes import Box, HungUp, Server
from tests.stores.etcd.fakes import Peer as Raw

__all__ = ["BEGIN", "GET", "NOTHING", "RUN", "AsyncApi", "BlockingApi", "Box", "Peer", "Redis", "UvloopApi"]

NOTHING = object()
"""Answered nothing, or by itself."""
BELL = "lock:~bell:me"
BEGIN = Sure((Command(("SET", "lock:~session:me", 1), "lock:~session:me"),), BELL)
GET = Command(("GET", "lock:a"), "lock:a")
RUN = Run(("lock:a", "{lock:a}:queue"), ("see", "a"))
INFO = {
    "server": "# Server\r\nrun_id:run-1\r\nuptime_in_seconds:100\r\n",
    "replication": f"# Replication\r\nrole:master\r\nmaster_replid:replid-1\r\nmaster_replid2:{'0' * 40}\r\n",
}


class Peer(Raw):
    """One accepted connection, from the server's side."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.speaking = threading.RLock()

    def words(self) -> list[str]:
        """Return the next command."""
        count = int(self._until(b"\r\n")[1:])
        return [self._word() for _ in range(count)]

    def say(self, reply: Any) -> None:
        """Send a reply; what begins with ``-`` is an error, and with ``+`` a status."""
        with self.speaking:
            self.sock.sendall(encoded(reply))

    def ring(self, content: Any, channel: str = BELL) -> None:
        """Send a message of a channel."""
        self.say(["message", channel, content])

    def _word(self) -> str:
        size = int(self._until(b"\r\n")[1:])
        return self._exactly(size + 2)[:-2].decode()


def encoded(reply: Any) -> bytes:
    """Return a reply as it is sent."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, list):
        return b"*%d\r\n" % len(reply) + b"".join(map(encoded, reply))
    data = reply if isinstance(reply, bytes) else str(reply).encode()
    if data[:1] in (b"-", b"+"):
        return data + b"\r\n"
    return b"$%d\r\n%s\r\n" % (len(data), data)


class Ending(Box):
    """Where the thread that delivers an event is ended."""

    def post(self, event: Any) -> None:
        raise SystemExit


class Redis(Server):
    """Answers each command by what is given for its first word, or as a lone master does.

    Attributes:
        listening: The connections that subscribed, from before they are answered.
        heard: What was asked, but for what begins a connection.
        facts: What ``INFO`` says.
    """

    def __init__(self, tls: bool = False, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.listening: queue.SimpleQueue[Peer] = queue.SimpleQueue()
        self.heard: list[list[str]] = []
        self.facts = dict(INFO)
        super().__init__(self._serve_one, tls)

    def heard_first(self, word: str) -> list[list[str]]:
        """Return the commands that began so."""
        return [words for words in list(self.heard) if words[0] == word]

    def _serve_one(self, raw: Raw, number: int) -> None:
        peer = Peer(raw.sock, raw.stop)
        while True:
            words = peer.words()
            self.heard.append(words)
            answer = self.answers.get(words[0], getattr(self, f"on_{words[0].lower()}", "+OK"))
            reply = answer(peer, words) if callable(answer) else answer
            if reply is not NOTHING:
                peer.say(reply)

    def on_client(self, peer: Peer, words: list[str]) -> Any:
        return 7 if words[1] == "ID" else "+OK"

    def on_subscribe(self, peer: Peer, words: list[str]) -> Any:
        with peer.speaking:  # who takes it from there speaks after this answer
            if words[1] != BELL:
                self.listening.put(peer)
            peer.say(["subscribe", words[1], 1])
        return NOTHING

    def on_ping(self, peer: Peer, words: list[str]) -> Any:
        return ["pong", ""]

    def on_info(self, peer: Peer, words: list[str]) -> Any:
        return self.facts[words[1]]

    def on_time(self, peer: Peer, words: list[str]) -> Any:
        return ["1000", "5"]


def hang(peer: Peer, words: list[str]) -> Any:
    """Answer nothing until the test is over."""
    peer.hang()
    raise HungUp


def settings_for(port: int, **options: Any) -> Settings:
    options = {"grace_s": 0.0, **options}
    place = options.pop("place", None) or One([("127.0.0.1", port)])
    access = options.pop("access", None) or Access()
    return Settings("redis://fake", place, access, **options)


def unexpected(reason: str) -> None:
    raise AssertionError(f"on_end should not be called: {reason}")


class BlockingApi:
    """Drive the blocking connection."""

    def __init__(self, port: int, **options: Any) -> None:
        self.connection: Any = RedisConnection(settings_for(port, **options), unexpected)

    def ask(self, request: Any, timeout_s: float = 5.0) -> Any:
        return self.connection.ask(request, timeout_s)

    def asks(self, requests: Sequence[Any], timeout_s: float = 5.0) -> list[Any]:
        """Ask at the same time; an exception stands for what was raised."""
        found: list[Any] = [None] * len(requests)

        def work(number: int) -> None:
            try:
                found[number] = self.ask(requests[number], timeout_s)
            except Exception as error:
                found[number] = error

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def while_asking(self, request: Any, do: Callable[[], object]) -> Any:
        """Ask, and meanwhile do something, in another thread; returns what was raised, or the reply."""
        found: list[Any] = []

        def work() -> None:
            try:
                found.append(self.ask(request))
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        do()
        thread.join()
        return found[0]

    def event(self, box: Box) -> Any:
        return box.events.get(timeout=5)

    def forget(self, box: Any) -> None:
        self.connection.forget(box)

    def until(self, event: Any) -> bool:
        found: bool = event.wait(5)
        return found

    def listener(self, redis: Redis) -> Peer:
        """Return the next connection that subscribes."""
        return redis.listening.get(timeout=5)

    def end_listener(self, peer: Peer) -> None:
        """End the thread that listens, as it delivers an event."""
        (listener,) = self.connection._listeners.values()
        self.ask(Listen(("a/9",), Ending()))
        peer.ring("a c9")
        listener.join(5)
        assert not listener.is_alive()

    def close(self) -> None:
        self.connection.close()

    def end(self) -> None:
        self.close()


class AsyncApi:
    """Drive the asyncio connection on a loop of its own, which runs only while something is awaited."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)

    def __init__(self, port: int, **options: Any) -> None:
        self.runner = asyncio.Runner(loop_factory=self.new_loop)
        self.connection: Any = AsyncRedisConnection(settings_for(port, **options), unexpected)

    def ask(self, request: Any, timeout_s: float = 5.0) -> Any:
        return self.runner.run(self.connection.ask(request, timeout_s))

    def asks(self, requests: Sequence[Any], timeout_s: float = 5.0) -> list[Any]:
        async def work() -> list[Any]:
            calls = (self.connection.ask(request, timeout_s) for request in requests)
            return list(await asyncio.gather(*calls, return_exceptions=True))

        return self.runner.run(work())

    def while_asking(self, request: Any, do: Callable[[], object]) -> Any:
        async def work() -> Any:
            asking = asyncio.ensure_future(self.connection.ask(request, 5.0))
            await asyncio.to_thread(do) if do != self.close else None
            if do == self.close:
                await asyncio.sleep(0)
                await self.connection.close()
            return (await asyncio.gather(asking, return_exceptions=True))[0]

        return self.runner.run(work())

    def event(self, box: Box) -> Any:
        return self.runner.run(asyncio.wait_for(box.arrived.get(), 5))

    def forget(self, box: Any) -> None:
        async def forget() -> None:
            self.connection.forget(box)

        self.runner.run(forget())

    def until(self, event: Any) -> bool:
        async def wait() -> bool:
            return await asyncio.to_thread(event.wait, 5)

        return self.runner.run(wait())

    def listener(self, redis: Redis) -> Peer:
        async def wait() -> Peer:
            return await asyncio.to_thread(redis.listening.get, timeout=5)

        return self.runner.run(wait())

    def end_listener(self, peer: Peer) -> None:
        """Cancel the task that listens, as other code may cancel all."""

        async def cancel() -> None:
            (listener,) = (task for task in asyncio.all_tasks() if task.get_name() == "recipes-listener")
            listener.cancel()
            await asyncio.wait([listener])

        self.runner.run(cancel())

    def close(self) -> None:
        self.runner.run(self.connection.close())

    def end(self) -> None:
        self.close()
        self.runner.close()


class UvloopApi(AsyncApi):
    """Drive the asyncio connection on a loop of uvloop's."""

    new_loop = staticmethod(uvloop.new_event_loop)
