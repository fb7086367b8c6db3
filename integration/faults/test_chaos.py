"""Fault 38: three random faults at once, all the while, under holders that note what they did.

``RECIPES_TEST_CHAOS_S=...`` makes the run longer, ``RECIPES_TEST_SEED=...`` repeats what was drawn.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from functools import partial

import pytest

import recipes
from integration import servers
from integration.faults.actors import Actor
from integration.faults.labs import Lab
from integration.faults.looking import hold_fault, remove
from integration.harness.etcd import Etcd
from integration.opening import open_patiently
from integration.proxy import Proxy
from recipes._run.clock import boot_time

RUN_S = float(os.environ.get("RECIPES_TEST_CHAOS_S", "12"))
SESSION_S = 2.0
CLIENTS = 4
SETTLE_S = 30.0
AT_ONCE = 3


class Register:
    """What the lock protects: it takes no token smaller than it has seen, and counts what it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens: list[int] = []
        self.count = 0
        self.refused = 0
        self.broken: list[str] = []

    def read(self, token: int) -> int | None:
        """Read the count, as this holder; None if a later one was here."""
        with self._lock:
            if self.tokens and token < self.tokens[-1]:
                self.refused += 1
                return None
            if not self.tokens or token > self.tokens[-1]:
                self.tokens.append(token)
            return self.count

    def write(self, token: int, count: int) -> bool:
        """Write what was read plus one, as this holder; False if a later one was here."""
        with self._lock:
            if token < self.tokens[-1]:
                self.refused += 1
                return False
            if count != self.count + 1:
                self.broken.append(f"token {token} wrote {count} over {self.count}")
            self.count = count
            return True


@pytest.fixture
def seed() -> str:
    """Return the seed of the run, printed if it fails."""
    chosen = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={chosen}")
    return chosen


@pytest.mark.long
@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_38_three_faults_at_once(lab: Lab, seed: str) -> None:
    register, over = Register(), threading.Event()
    returned: list[tuple[float, float, int]] = []
    failed: list[BaseException] = []
    proxies = [lab._stack.enter_context(Proxy.of(lab.server)) for _ in range(CLIENTS)]
    clients = [client(lab, proxy, number) for number, proxy in enumerate(proxies)]
    sessions = servers.sessions(lab.server)
    storm = Storm(lab, proxies, clients, seed)
    works = [partial(use, one, lab.name, register, returned, over) for one in clients]
    works += [partial(storm.rage, number, over) for number in range(AT_ONCE)]
    threads = [threading.Thread(target=guarded, args=(work, failed, over)) for work in works]
    for thread in threads:
        thread.start()
    over.wait(RUN_S)
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    lab.figure(f"{len(returned)} grants, {register.count} writes, {register.refused} refused; {storm.done}")
    assert not failed, (seed, storm.done, failed)
    assert register.broken == [], seed  # S1
    assert register.count > 0
    assert all(storm.done.values())

    tokens = [token for *_, token in returned]
    assert len(set(tokens)) == len(tokens), seed  # S3
    for asked, _, token in returned:
        earlier = [other for _, granted, other in returned if granted < asked]
        assert not earlier or token > max(earlier), seed
    last = clients[0].acquire(lab.name, timeout=SETTLE_S)  # it goes on
    assert last.token > max(tokens)
    assert last.release()
    assert lab.contenders_become(0, within_s=SETTLE_S), seed  # L5
    for one in clients:
        assert servers.eventually(lambda one=one: one.client.pending_cleanups == 0, SETTLE_S)
    # L8: the store has one session for each client.
    assert servers.eventually(lambda: len(servers.sessions(lab.server)) <= len(sessions), SETTLE_S)


def client(lab: Lab, proxy: Proxy, number: int) -> Actor:
    from integration.faults.actors import APIS, actor

    options = {"session_timeout": SESSION_S, "request_timeout": 1.0}
    if isinstance(lab.server, servers.Redis):
        options["restart_grace"] = SESSION_S  # by default it grants nothing for longer than this runs
    one = actor(APIS[number % 2], proxy.url(lab.prefix), **options)
    lab._stack.callback(one.close)
    open_patiently(one)
    return one


def guarded(work: Callable[[], None], failed: list[BaseException], over: threading.Event) -> None:
    try:
        work()
    except BaseException as error:
        failed.append(error)
        over.set()


def use(
    one: Actor, name: str, register: Register, returned: list[tuple[float, float, int]], over: threading.Event
) -> None:
    """Acquire, read, write, release, over and over; whatever goes wrong on the way may go wrong."""
    while not over.is_set():
        asked = boot_time()
        try:
            held = one.acquire(name, timeout=1.0)
        except (recipes.LockTimeout, recipes.StoreError, recipes.SessionLost):
            continue
        returned.append((asked, boot_time(), held.token))
        try:
            if held.held and (count := register.read(held.token)) is not None:
                over.wait(0.005)
                if held.held:
                    register.write(held.token, count + 1)
            held.release()
        except (recipes.StoreError, recipes.SessionLost):
            continue


class Storm:
    """Draws faults, and lets each last for a while; several rage at once.

    Attributes:
        done: How often each kind of fault has struck.
    """

    def __init__(self, lab: Lab, proxies: list[Proxy], clients: list[Actor], seed: str) -> None:
        self._lab, self._proxies, self._clients, self._seed = lab, proxies, clients, seed
        self._server = threading.Lock()  # it dies, or stops, once at a time
        self._kinds = {
            "cut": lambda chance: self._on_proxy(chance, "cut"),
            "silence": lambda chance: self._on_proxy(chance, "blackhole"),
            "one way": lambda chance: self._on_proxy(chance, "blackhole", chance.choice(("up", "down"))),
            "slow": lambda chance: self._on_proxy(chance, "delay", 0.1, 0.1),
            "deaf": lambda chance: self._on_proxy(chance, "lose_events"),
            "reply lost": self._lose_reply,
            "store stopped": self._stop,
            "store killed": self._kill,
            "contender removed": self._remove,
        }
        self.done = dict.fromkeys(self._kinds, 0)

    def rage(self, number: int, over: threading.Event) -> None:
        """Have one fault after the other; each kind in turn, before chance decides."""
        chance = random.Random(f"{self._seed} {number}")
        kinds = list(self._kinds)
        first = kinds[number::AT_ONCE]
        while not over.is_set() or first:
            kind = first.pop() if first else chance.choice(kinds)
            self._kinds[kind](chance)
            self.done[kind] += 1
            over.wait(chance.uniform(0.05, 0.3))

    def _on_proxy(self, chance: random.Random, fault: str, *args: object) -> None:
        proxy = chance.choice(self._proxies)
        getattr(proxy, fault)(*args)
        hold_fault(chance.uniform(0.1, 1.5 * SESSION_S if chance.random() < 0.2 else 0.6))
        proxy.heal()

    def _lose_reply(self, chance: random.Random) -> None:
        trap = chance.choice(self._proxies).drop_reply(n=chance.randint(1, 8), silent=chance.random() < 0.3)
        trap.sprung.wait(1)

    def _stop(self, chance: random.Random) -> None:
        with self._server:
            self._lab.server.pause()
            hold_fault(chance.uniform(0.1, 0.8))
            self._lab.server.resume()

    def _kill(self, chance: random.Random) -> None:
        with self._server:
            self._lab.server.kill()
            self._lab.server.start()

    def _remove(self, chance: random.Random) -> None:
        """Delete a contender as an operator does, or have etcd forget its history."""
        with self._server:
            if isinstance(self._lab.server, Etcd):
                self._lab.server.compact()
            if standing := self._lab.contenders():
                try:
                    remove(self._lab.server, chance.choice(standing))
                except Exception:  # it was gone already
                    return
