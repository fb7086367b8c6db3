"""Faults drawn from a seed, one after the other, or three at once; each is noted with when and to whom."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration.chaos.history import now_ns
from integration.chaos.stages import DatabaseStage
from integration.faults.looking import hold_fault

if TYPE_CHECKING:
    from integration.chaos.run import Run

__all__ = ["AT_ONCE", "ON_THE_WAY", "THEMES", "Storm", "theme_of"]

THEMES: dict[str, tuple[str, ...]] = {
    "pauses": ("pause", "pause", "hiccup"),
    "network": ("cut", "long cut", "silence", "one way", "slow", "deaf", "reply lost"),
    "kills": ("kill", "kill", "hiccup"),
    "server": ("store stopped", "store restarted", "member stopped", "compaction", "connections ended"),
    "sessions": ("session expired", "session expired", "compaction", "hiccup"),
    "mixed": (),  # any
}
"""What a run is about, or anything where a store knows no such fault; every third run has three faults at
once instead, of any kind."""

ON_THE_WAY = ("network", "mixed")
"""Those that need proxies between clients and servers; the others do without, and get on faster."""

AT_ONCE = 3
GAP_S = (0.05, 0.3)


def theme_of(number: int) -> tuple[str, int]:
    """Return what the run with this number is about, and how many faults there are at once."""
    if number % 3 == 2:
        return "mixed", AT_ONCE
    order = ("pauses", "network", "server", "pauses", "kills", "sessions", "pauses", "mixed")
    return order[(number - number // 3) % len(order)], 1


class Storm:
    """Has faults happen until it is over; whatever it did is undone when a fault ends."""

    def __init__(self, run: Run, theme: str) -> None:
        self.run = run
        self.stage = run.stage
        self.done: Counter[str] = Counter()
        self.failed: list[BaseException] = []
        self._log = (Path(run.folder) / "faults.json.log").open("a")
        self._one_server = threading.Lock()
        self._noting = threading.Lock()
        kinds = self._kinds()
        self._chosen = [kind for kind in THEMES[theme] if kind in kinds] or list(kinds)
        self._acts = kinds

    def _kinds(self) -> dict[str, Callable[[random.Random, threading.Event], None]]:
        session_s = self.stage.session_s
        kinds: dict[str, Any] = {
            "pause": lambda chance, over: self._pause(chance, over, session_s + 0.2, session_s + 1.2),
            "hiccup": lambda chance, over: self._pause(chance, over, 0.05, 0.5 * session_s),
            "kill": self._kill,
        }
        if self.stage.has_server:
            kinds |= self._between() | {
                "store stopped": self._stop_store,
                "store restarted": self._restart_store,
            }
        if self.stage.clustered:
            kinds["member stopped"] = self._stop_member
        if self.stage.kind == "etcd":
            kinds["compaction"] = self._compact
        if isinstance(self.stage, DatabaseStage):
            kinds["connections ended"] = partial(self._end_connections, self.stage)
        if self.stage.expires():
            kinds["session expired"] = self._expire
        return {kind: act for kind, act in kinds.items() if kind not in self.stage.without}

    def _between(self) -> dict[str, Any]:
        """Return the faults between clients and servers."""
        session_s = self.stage.session_s
        return {
            "cut": lambda chance, over: self._network(chance, over, 0.05, 0.5, "cut"),
            "long cut": lambda chance, over: self._network(
                chance, over, 0.9 * session_s, 1.4 * session_s, "cut"
            ),
            "silence": lambda chance, over: self._network(chance, over, 0.1, 1.2 * session_s, "blackhole"),
            "one way": lambda chance, over: self._network(
                chance, over, 0.1, 1.2 * session_s, "blackhole", chance.choice(("up", "down"))
            ),
            "slow": lambda chance, over: self._network(chance, over, 0.5, 1.5, "delay", 0.05, 0.045),
            "deaf": lambda chance, over: self._network(chance, over, 0.3, 1.5, "lose_events"),
            "reply lost": self._lose_reply,
        }

    @property
    def kinds(self) -> set[str]:
        """The faults of which it draws."""
        return set(self._chosen)

    def rage(self, number: int, over: threading.Event) -> None:
        """Have one fault after the other."""
        chance = random.Random(f"{self.run.seed} storm {number}")
        try:
            over.wait(chance.uniform(0.2, 0.6))  # that there is something to disturb
            while not over.is_set():
                kind = chance.choice(self._chosen)
                self._acts[kind](chance, over)
                with self._noting:
                    self.done[kind] += 1
                over.wait(chance.uniform(*GAP_S))
        except BaseException as error:
            self.failed.append(error)

    def note(self, fault: str, **facts: Any) -> int:
        """Note what is about to be done; returns when."""
        at = now_ns()
        with self._noting:
            print(json.dumps({"at": at, "fault": fault, **facts}), file=self._log, flush=True)
        return at

    def close(self) -> None:
        """Write no more."""
        self._log.close()

    def _pause(self, chance: random.Random, over: threading.Event, least_s: float, most_s: float) -> None:
        with self.run.borrowed(chance) as client:
            if client is None:
                over.wait(0.1)
                return
            length = chance.uniform(least_s, most_s)
            past = length > self.stage.session_s
            self.note("pause", client=client.spec.who, seconds=length, past=past)
            client.stop()
            try:
                hold_fault(length)  # also when it is over: a pause that is cut short is another fault
            finally:
                self.note("continue", client=client.spec.who)
                client.go_on()

    def _kill(self, chance: random.Random, over: threading.Event) -> None:
        with self.run.borrowed(chance, self.run.mortal) as client:
            if client is None:
                over.wait(0.1)
                return
            self.note("kill", client=client.spec.who)
            client.kill()
            self.note("killed", client=client.spec.who)
            self.run.replace(client)
        over.wait(0.3)

    def _network(
        self, chance: random.Random, over: threading.Event, least_s: float, most_s: float, do: str, *how: Any
    ) -> None:
        slot = chance.randrange(len(self.run.ways))
        way, length = self.run.ways[slot], chance.uniform(least_s, most_s)
        self.note(do, slot=slot, seconds=length, how=how)
        for proxy in way.proxies:
            getattr(proxy, do)(*how)
        over.wait(length)
        way.heal()

    def _lose_reply(self, chance: random.Random, over: threading.Event) -> None:
        slot, number, silent = (
            chance.randrange(len(self.run.ways)),
            chance.randint(1, 8),
            chance.random() < 0.3,
        )
        self.note("reply lost", slot=slot, n=number, silent=silent)
        traps = [proxy.drop_reply(n=number, silent=silent) for proxy in self.run.ways[slot].proxies]
        traps[0].sprung.wait(0.5)

    def _stop_store(self, chance: random.Random, over: threading.Event) -> None:
        longest = 1.2 * self.stage.session_s if chance.random() < 0.2 else 0.8
        length = chance.uniform(0.1, longest)
        with self._one_server:
            self.note("store stopped", seconds=length)
            for member in self.stage.members:
                member.pause()
            over.wait(length)
            for member in self.stage.members:
                member.resume()

    def _stop_member(self, chance: random.Random, over: threading.Event) -> None:
        length = chance.uniform(0.5, 2.0)
        with self._one_server:
            member = chance.choice(self.stage.members)
            self.note("member stopped", member=member.label, seconds=length)
            member.pause()
            over.wait(length)
            member.resume()

    def _restart_store(self, chance: random.Random, over: threading.Event) -> None:
        """Kill the server, or the leader of a cluster, or any member, and start it again."""
        with self._one_server:
            leader = self.stage.clustered and chance.random() < 0.7
            member = self.stage.server.leader() if leader else chance.choice(self.stage.members)
            self.note("leader killed" if leader else "store killed", member=member.label)
            member.kill()
            if self.stage.clustered:
                over.wait(chance.uniform(0.2, 1.0))
            member.start()

    def _compact(self, chance: random.Random, over: threading.Event) -> None:
        with self._one_server:
            self.note("compaction")
            with contextlib.suppress(RuntimeError):  # nothing has happened since the last one
                self.stage.compact()
        over.wait(0.1)

    def _end_connections(self, database: DatabaseStage, chance: random.Random, over: threading.Event) -> None:
        with self._one_server:
            self.note("connections ended")
            database.end_connections()
        over.wait(0.1)

    def _expire(self, chance: random.Random, over: threading.Event) -> None:
        with self._one_server:
            if sessions := self.stage.sessions(self.run.prefix):
                session = chance.choice(sessions)
                self.note("session expired", session=session)
                self.stage.expire(session)
        over.wait(0.4)
