"""Redis as scripts see it: the model by acts, and the script itself on a real server.

A real server has its own clock. It is asked for the time before each step, and the model takes that.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import resources
from typing import Any

from integration.differential.redis_scripts import SESSIONS, Act, Plain, Sleep
from integration.differential.script import Outcome, Script, Told
from recipes.stores.redis.keys import Keys
from tests.simulation.acts_model import Acts

__all__ = ["RealRedis", "RedisModel", "Times"]

SCRIPT = resources.files("recipes.stores.redis").joinpath("queue.lua").read_text("utf-8")
STEP_US = 1000
PATIENCE_S = 10.0
DUE = {"join": 2, "see": 2, "list": 1, "starting": 1}
"""Where a reply says after how many milliseconds to look again; it is compared whether there is any."""


class Times:
    """What the real server's clock said before each step of the script that ran last."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.at_us: list[int] = []


class RedisSide(ABC):
    """What both sides share: names in, names out."""

    def __init__(self, times: Times) -> None:
        self.times = times

    def begin(self, script: Script) -> None:
        self.script = script
        self.keys = Keys(f"diff{script.seed}-{secrets.token_hex(4)}:")
        self.tokens: dict[str, int] = {}
        self.numbers: dict[int, str] = {}
        self.version = self.receipt = "0"
        self.step = 0
        self.open()

    def ask(self, step: int, connection: int, request: Any) -> Outcome:
        self.step = step
        if isinstance(request, Sleep):
            self.sleep(request.ms)
            return Outcome(None, self.told())
        try:
            reply = self.answer(SESSIONS[connection], request)
        except Exception as error:
            reply = f"{type(error).__name__}: {error}"
        return Outcome(reply, self.told())

    def end(self, outcomes: list[Outcome]) -> list[Outcome]:
        self.close()
        return outcomes

    def answer(self, session: str, request: Act | Plain) -> Any:
        now_us = self.now()
        if isinstance(request, Plain):
            name, *words = request.words
            if name == "FORGET":
                return self.forget(self.keys.beside(request.queue, "known"))
            return self.plain(name, self.keys.base(request.queue), words)
        keys = list(self.keys.of(request.queue))
        if request.tombstone:
            keys.append(self.keys.beside(request.queue, f"x:{request.tombstone}"))
        if request.act in ("get", "put"):
            keys.append(self.keys.beside(request.queue, "value"))
        if request.act == "put":
            keys.append(self.keys.beside(request.queue, f"receipt:{session}"))
            keys += [self.keys.beside(request.queue, "known") for _ in request.guards]
        filled = [self.filled(word) for word in request.words]
        words = [request.act, request.queue, session, self.keys.bell, request.ttl_ms, *filled]
        until_us = now_us + request.starting_us if request.starting_us else 0
        return self.named(request, self.run(until_us, keys, words))

    # Names in.

    def filled(self, word: Any) -> Any:
        if isinstance(word, str) and word.startswith("@"):
            token = self.foreign() if word == "@foreign" else self.tokens.get(word[1:], 1)
            return str(token) if self.script.steps[self.step].request.act == "touch" else token
        if word == "#v":
            return int(self.version)
        return int(self.receipt) if word == "#r" else word

    def foreign(self) -> int:
        """Return the token of the stranger that was there last."""
        return -int(hashlib.sha1(b"theirs").hexdigest()[:12], 16)

    # Names out.

    def named(self, request: Act, reply: Any) -> Any:
        if request.act == "join" and isinstance(reply[0], bytes) and reply[0].isdigit():
            self.tokens[request.words[0]] = int(reply[0])
        if request.act == "put" and isinstance(reply[0], int):
            self.receipt, self.version = reply[1].decode(), reply[4].decode()
        if request.act == "get":
            self.version = reply[1].decode()
        due = DUE.get("starting" if isinstance(reply, list) and reply[0] == b"starting" else request.act)
        if due is not None and len(reply) > due:
            reply = [*reply[:due], reply[due] if reply[due] < 0 else "due", *reply[due + 1 :]]
        return self.masked(reply)

    def masked(self, found: Any) -> Any:
        """Return a reply with a name for each number that is of a clock, as they appear."""
        if isinstance(found, list):
            return [self.masked(one) for one in found]
        if isinstance(found, bytes) and found.isdigit() and len(found) > 12:
            return self.name_of(int(found))
        return found

    def name_of(self, number: int) -> str:
        falls = any(number < other for other in self.numbers)
        return self.numbers.setdefault(number, f"n{len(self.numbers)}{' falls' if falls else ''}")

    def heard(self, channel: str, message: str) -> Told:
        queue, *words = message.split(" ")
        named = [word if word == "q" else f"{word[0]}{self.name_of(int(word[1:]))}" for word in words]
        return Told(self.step, channel.removeprefix(self.keys.bell), " ".join((queue, *named)))

    @abstractmethod
    def open(self) -> None:
        """Begin a script."""

    @abstractmethod
    def now(self) -> int:
        """Return what the clock says."""

    @abstractmethod
    def sleep(self, ms: int) -> None:
        """Let time pass."""

    @abstractmethod
    def run(self, until_us: int, keys: list[str], words: list[Any]) -> Any:
        """Carry out an act."""

    @abstractmethod
    def plain(self, name: str, key: str, words: list[Any]) -> Any:
        """Carry out a command."""

    @abstractmethod
    def forget(self, known: str) -> None:
        """Have the records of a queue be gone, as after a day."""

    @abstractmethod
    def told(self) -> list[Told]:
        """Return what was published since the last time."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class RedisModel(RedisSide):
    """The model of the simulation; ``make`` may make a broken one."""

    def __init__(self, times: Times | None = None, make: Callable[[], Acts] = Acts) -> None:
        super().__init__(times or Times())
        self._make = make

    def open(self) -> None:
        self.acts = self._make()
        self.acts.now_us = 1_700_000_000_000_000
        self.rung: list[Told] = []
        self.acts.ring = lambda channel, message: self.rung.append(self.heard(channel, message))

    def now(self) -> int:
        known = self.times.seed == self.script.seed
        at_us = self.times.at_us[self.step] if known else self.acts.now_us + STEP_US
        self.acts.now_us = at_us
        return at_us

    def sleep(self, ms: int) -> None:
        self.acts.now_us += ms * 1000

    def run(self, until_us: int, keys: list[str], words: list[Any]) -> Any:
        return self.acts.run(until_us, keys, words)

    def plain(self, name: str, key: str, words: list[Any]) -> Any:
        acts = self.acts
        there = acts.get(key)
        if name == "DEL":
            return acts.command(("DEL", key))
        if name == "HSET":  # a lock of another library: where a text is, it fails
            if there is None:
                acts.set(key, b"a hash")
            return None
        if words[-1] == "NX" and there is not None:
            return None
        acts.command(("SET", key, *(word for word in words if word != "NX")))
        return b"OK"

    def forget(self, known: str) -> None:
        queue = self.acts.queues.get(known)
        if queue is not None:
            queue.standing, queue.ids, queue.last, queue.held = {}, {}, 0, None

    def told(self) -> list[Told]:
        rung, self.rung = self.rung, []
        return sorted(rung, key=str)

    def close(self) -> None:
        """It goes by itself."""


class RealRedis(RedisSide):
    """A real server, which runs the script itself."""

    def __init__(self, server: Any, times: Times) -> None:
        super().__init__(times)
        self.client = server.client(protocol=2)
        self.bells = self.client.pubsub()
        self.bells.psubscribe("diff*")
        confirmed = self.bells.get_message(timeout=PATIENCE_S)
        assert confirmed is not None, "a subscription should be confirmed"
        self.barriers = 0
        self.sha = self.client.script_load(SCRIPT)

    def open(self) -> None:
        self.times.seed, self.times.at_us = self.script.seed, [0] * len(self.script.steps)

    def now(self) -> int:
        seconds, rest = self.client.time()
        self.times.at_us[self.step] = seconds * 1_000_000 + rest
        return self.times.at_us[self.step]

    def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def run(self, until_us: int, keys: list[str], words: list[Any]) -> Any:
        return self.client.evalsha(self.sha, len(keys), *keys, until_us, *words)

    def plain(self, name: str, key: str, words: list[Any]) -> Any:
        if name == "HSET":
            if not self.client.exists(key):
                self.client.execute_command("HSET", key, *words)
            return None
        reply = self.client.execute_command(name, key, *words)
        return b"OK" if reply is True else reply

    def forget(self, known: str) -> None:
        self.client.delete(known)

    def told(self) -> list[Told]:
        """Wait for a message of our own, which comes behind all others."""
        self.barriers += 1
        barrier = f"{self.keys.bell}barrier"
        self.client.publish(barrier, self.barriers)
        told: list[Told] = []
        until = time.monotonic() + PATIENCE_S
        while True:
            message = self.bells.get_message(timeout=PATIENCE_S)
            assert message is not None or time.monotonic() < until, "the barrier should have come"
            if message is None:
                continue
            if message["channel"].decode() == barrier:
                if int(message["data"]) == self.barriers:
                    return sorted(told, key=str)
                continue
            told.append(self.heard(message["channel"].decode(), message["data"].decode()))

    def close(self) -> None:
        for key in self.client.scan_iter(match=f"*{self.keys.prefix}*", count=1000):
            self.client.delete(key)

    def shut(self) -> None:
        """Close the connections."""
        self.bells.close()
        self.client.close()
