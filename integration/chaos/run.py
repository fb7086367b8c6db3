"""One run: clients, faults, an end in peace, and what is wrong with what they did."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from integration.chaos.client import CELL_LANES, SHAPE, Spec
from integration.chaos.faults import AT_ONCE, ON_THE_WAY, Storm, theme_of
from integration.chaos.judge import Judged, judge
from integration.chaos.processes import Process
from integration.chaos.resources import Bank, Registers
from integration.chaos.stage import Stage, Way
from integration.faults.looking import hold_fault
from integration.harness.process import eventually

__all__ = ["Result", "Run"]

APIS = ("blocking", "asyncio")
GONE_S = 5.0


@dataclass
class Result:
    """What came of a run."""

    store: str
    seed: str
    theme: str
    at_once: int
    lanes: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    leaked: int = 0
    judged: dict[str, Any] = field(default_factory=dict)


class Run:
    """One run on a stage; its histories stay in ``folder`` if anything is wrong, or if asked to.

    Args:
        stage: Where.
        number: The number of the run within its batch, which decides what it is about.
        batch_seed: With the number, all that is drawn.
        folder: Where histories go.
        seconds: How long the faults go on.
        theme: What it is about, three faults at once; "": as its number decides.
        lanes: What its clients do; none: all.
    """

    size = 5
    """How many clients there are."""
    shape = SHAPE
    request_s = 1.0

    def __init__(
        self,
        stage: Stage,
        number: int,
        batch_seed: str,
        folder: Path,
        seconds: float,
        *,
        theme: str = "",
        lanes: tuple[str, ...] = (),
    ) -> None:
        self.stage, self.seconds = stage, seconds
        self.seed = f"{batch_seed}/{number}"
        self.theme, self.at_once = (theme, AT_ONCE) if theme else theme_of(number)
        self.lanes = lanes or (Spec.lanes if stage.queues else CELL_LANES)
        self.prefix = f"chaos-{uuid.uuid4().hex[:10]}"
        self.folder = folder / self.prefix
        self.result = Result(stage.store, self.seed, self.theme, self.at_once, len(self.lanes))
        self.took_s = 0.0
        self.ways: list[Way] = []
        self.clients: list[Process] = []
        self._busy: set[int] = set()
        self._free = threading.Lock()
        self._born = 0
        self._living: set[str] = set()

    def go(self) -> Result:
        """Run, and judge; leaked contenders of ended sessions are looked for by `gone`."""
        began = time.monotonic()
        self.folder.mkdir(parents=True)
        registers, bank = Registers(self.folder / "registers.db"), Bank(self.folder / "bank.db")
        registers.make()
        bank.make()
        with contextlib.ExitStack() as stack:
            self.ways = [self.stage.way(proxied=self.theme in ON_THE_WAY) for _ in range(self.size)]
            for way in self.ways:
                stack.callback(way.close)
            self.clients = [self._born_at(slot) for slot in range(self.size)]
            stack.callback(self._kill_all)
            storm = self._rage()
            self._end(storm)
        judged = judge(self.folder, registers.values(), bank.sum(), bank.total)
        for file in (registers, bank):
            file.close()
        self.took_s = time.monotonic() - began
        return self._told(storm, judged)

    def _born_at(self, slot: int) -> Process:
        who = f"c{self._born}"
        api = APIS[self._born % len(APIS)]
        self._born += 1
        url = self.ways[slot].url(self.prefix)
        return Process(
            Spec(
                who,
                api,
                url,
                self.stage.session_s,
                self.seed,
                self.folder,
                self.lanes,
                self.shape,
                dict(self.stage.options),
                self.request_s,
            )
        )

    def _storm(self) -> Storm:
        return Storm(self, self.theme)

    def _rage(self) -> Storm:
        storm, over = self._storm(), threading.Event()
        threads = [threading.Thread(target=storm.rage, args=(number, over)) for number in range(self.at_once)]
        for thread in threads:
            thread.start()
        self._pass()
        over.set()
        for thread in threads:
            thread.join()
        storm.close()
        return storm

    def _pass(self) -> None:
        """Let the time of the faults pass."""
        hold_fault(self.seconds)

    def _end(self, storm: Storm) -> None:
        """Heal, have all clients stop, look at what they left, and close them."""
        for error in storm.failed:
            self.result.violations.append(f"the storm itself failed: {error!r}")
        self.stage.heal()
        for way in self.ways:
            way.heal()
        for client in self.clients:
            client.tell("stop")
        for client in self.clients:
            self._look_at(client, client.answer())
        left = self._left()
        self.result.leaked += len(left)
        self.result.violations += [f"L5: leaked by a living session: {one}" for one in left]
        for client in self.clients:
            client.tell("close")
        for client in self.clients:
            if not client.ended():
                self.result.violations.append(f"{client.spec.who} did not end")

    def _look_at(self, client: Process, state: dict[str, Any]) -> None:
        if state["pending"]:
            self.result.violations.append(f"L5: {client.spec.who} has {state['pending']} still to withdraw")
        if state["grants"]:
            self.result.violations.append(f"{client.spec.who} still has {state['grants']}")
        if state["session"]:
            self._living.add(state["session"])

    def _left(self) -> list[str]:
        """Return the contenders of sessions that live, though nobody wants anything any more."""

        def left() -> list[str]:
            standing = self.stage.contenders(self.prefix)
            return [path for path, session in standing.items() if session in self._living]

        eventually(lambda: not left(), GONE_S)
        return left()

    def gone(self, within_s: float) -> bool:
        """Whether every contender is gone, also those of the killed: their sessions have ended."""
        return eventually(lambda: not self.stage.contenders(self.prefix), within_s)

    def leaked(self) -> None:
        """Note that something is left after all."""
        left = self.stage.contenders(self.prefix)
        self.result.leaked += len(left)
        self.result.violations.append(f"left behind by sessions that should have ended: {sorted(left)}")

    def _told(self, storm: Storm, judged: Judged) -> Result:
        self.result.faults = dict(storm.done)
        self.result.violations += judged.violations
        self.result.judged = {**judged.figures, "held_at_kill": judged.open}
        return self.result

    def save(self, folder: Path) -> None:
        """Keep the histories in ``folder``, with what was found."""
        (self.folder / "result.json").write_text(json.dumps(asdict(self.result), indent=1))
        shutil.copytree(self.folder, folder / self.seed.replace("/", "-"), dirs_exist_ok=True)

    def forget(self) -> None:
        """Remove the histories."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # For the storm.

    @property
    def mortal(self) -> range:
        """The places of those that may be killed."""
        return range(self.size)

    @contextlib.contextmanager
    def borrowed(self, chance: random.Random, among: range | None = None) -> Iterator[Process | None]:
        """Yield a client that nobody else stops or kills meanwhile; None if there is none."""
        with self._free:
            slots = [slot for slot in among or range(self.size) if slot not in self._busy]
            slot = chance.choice(slots) if slots else None
            if slot is not None:
                self._busy.add(slot)
        if slot is None:
            yield None
            return
        try:
            yield self.clients[slot]
        finally:
            with self._free:
                self._busy.discard(slot)

    def replace(self, client: Process) -> None:
        """Have another client in place of one that was killed."""
        slot = self.clients.index(client)
        self.clients[slot] = self._born_at(slot)

    def _kill_all(self) -> None:
        for client in self.clients:
            client.kill()
