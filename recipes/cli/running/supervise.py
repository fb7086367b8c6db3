"""A command that runs: its guard gets the deadline, signals are passed on, the terminal is lent."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import recipes
from recipes._run.clock import boot_time
from recipes.cli import codes
from recipes.cli.running.ending import Ending, Outcome, ending_of
from recipes.cli.running.minder import GuardGone, Minder
from recipes.cli.running.signals import Signals
from recipes.cli.running.terminal import Terminal

__all__ = ["Supervisor"]

SHORTEST_NAP_S = 0.02
HELP_AFTER_S = 0.25
"""A guard that has not ended a command by then, after its lock was lost, is helped."""
HANG_UP_AGAIN_S = 1.0
"""A command that stops for the terminal again, after it was hung up, stays stopped for so long."""
JOB_CONTROL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Supervisor:
    """Runs one command under one grant.

    Args:
        grant: The proof that the lock is held.
        minder: The way to the guard.
        signals: The signals of this process.
        terminal: The terminal of this process.
        say: Prints a line for people.
        title: What is held, for people: "lock 'x'".
        stops: Whether the command ends when the lock is lost.
    """

    def __init__(
        self,
        grant: recipes.Grant,
        minder: Minder,
        signals: Signals,
        terminal: Terminal,
        say: Callable[[str], None],
        *,
        title: str,
        stops: bool,
    ) -> None:
        self._grant = grant
        self._minder = minder
        self._signals = signals
        self._terminal = terminal
        self._say = say
        self._title = title
        self._stops = stops
        self._grace_s = 0.0
        self._told: float | None = None
        self._warned = False
        self._lent = False
        self._stopped_too = True
        self._hang_up_at: float | None = None
        self._hung_up_at: float | None = None
        self._ended_by_us = False
        self._lost_at: float | None = None

    @staticmethod
    def deadline_of(grant: recipes.Grant) -> float:
        """Return until when the boot clock proves the grant, by what is known now; 0 if it is lost."""
        now = boot_time()  # first: a pause between the two then makes it earlier, not later
        remaining = grant.remaining
        return now + remaining if remaining > 0 else 0.0

    def run(self, command: Sequence[str], environment: Mapping[str, str], grace_s: float) -> Ending:
        """Run it to its end."""
        self._grace_s = grace_s
        self._lent = self._terminal.wanted
        self._told = self.deadline_of(self._grant)
        self._minder.start(
            command,
            environment,
            deadline=self._told if self._stops else None,
            grace_s=grace_s,
            terminal=self._lent,
            ignored=self._signals.ignored,
        )
        self._grant.lost.add_callback(lambda _grant: self._signals.ring())
        try:
            return self._watched(command[0])
        except GuardGone as gone:
            token, stuck = self._grant.token, gone.stuck
            self._say(_stuck(command[0], stuck))
            if self._ended_by_us:  # it was stopped, and we killed it
                lost = self._grant.lost_reason
                return Ending(Outcome.LOST, codes.LOST, reason=lost, token=token, stuck=stuck)
            words = f"the guard of {command[0]} was killed"
            words += "" if stuck else f", and {command[0]} was ended with it"
            return Ending(Outcome.FAILED, codes.WRONG, reason=words, token=token, stuck=stuck)
        except BaseException:
            self._minder.end()  # before anybody gives the lock back
            raise
        finally:
            if self._lent:
                self._terminal.take_back()

    def _watched(self, name: str) -> Ending:
        while True:
            self._tell_deadline()
            both: list[Minder | Signals] = [self._minder, self._signals]
            ready, _, _ = select.select(both, [], [], self._nap())
            if self._signals in ready:
                self._signals.heard()
            while self._signals.arrived:
                self._minder.signal(self._signals.arrived.popleft())
            if self._minder in ready:
                for message in self._minder.news():
                    if (ending := self._hear(message, name)) is not None:
                        return ending
            if self._hang_up_at is not None and boot_time() >= self._hang_up_at:
                self._hang_up(name)

    def _nap(self) -> float | None:
        """Return how long nothing has to be done: half the time to when the command would be ended."""
        now = boot_time()
        naps = [] if self._hang_up_at is None else [max(self._hang_up_at - now, 0.0)]
        if self._lost_at is None:
            assert self._told is not None, "it was set before the first wait"
            naps.append(max((self._told - self._grace_s - now) / 2, SHORTEST_NAP_S))
        elif self._stops:
            naps.append(HELP_AFTER_S)
        return min(naps, default=None)

    def _tell_deadline(self) -> None:
        """Tell the guard what the last renewal proved; or that the lock is lost."""
        deadline = self.deadline_of(self._grant)
        if deadline:
            if self._stops and self._told != deadline:
                self._minder.deadline(deadline)
            self._told = deadline
            return
        now = boot_time()
        if self._lost_at is None:
            self._lost_at = now
            if self._stops:
                self._ended_by_us = True
                self._minder.deadline(0.0)
            else:
                self._say(f"{self._title} was lost: {self._grant.lost_reason}; the command goes on")
        elif self._stops and now - self._lost_at >= HELP_AFTER_S:
            self._minder.kill()

    def _hear(self, message: dict[str, Any], name: str) -> Ending | None:
        """Take what the guard told; returns how the command ended, if it has."""
        token = self._grant.token
        match message["told"]:
            case "stopped":
                self._stopped(message["number"])
            case "stopping":
                self._ended_by_us = True
                within_s = message["within_s"]
                self._say(f"no renewal of the session; {name} is asked to end, within {within_s:.1f} s")
            case "killed":
                self._ended_by_us = True
            case "late":
                reason = f"{self._grant.lost_reason or 'its proof ran out'}; {name} was not started"
                return Ending(Outcome.LOST, codes.LOST, reason=reason, token=token)
            case "failed":
                number = message["errno"]
                code = codes.NOT_FOUND if number in (2, 20) else codes.CANNOT_RUN
                reason = f"{name} could not be started: {os.strerror(number)}"
                return Ending(Outcome.NOT_STARTED, code, reason=reason, token=token)
            case "ended":
                left, stuck = message["left"], tuple(message["stuck"])
                if left:
                    self._say(f"{name} left {left} processes behind{'' if stuck else ', which were ended'}")
                self._say(_stuck(name, stuck))
                ending = ending_of(message["status"], token, left, stuck)
                if not self._ended_by_us:
                    return ending
                return replace(ending.but_lost(self._grant.lost_reason), token=token)
            case _:  # "forked": what it is good for, the minder has kept
                pass
        return None

    def _stopped(self, number: int) -> None:
        """Stop with the command, as a job; or lend it the terminal that it stopped for."""
        if number not in JOB_CONTROL:
            return
        if number == signal.SIGTSTP or not self._terminal.mine:
            lent = self._lent
            if lent:
                self._terminal.take_back()
            if self._stopped_too:  # the last time, if there was one
                left_s = max(self._grant.remaining - self._grace_s, 0.0)
                self._say(f"stopped, and nothing renews the session: continue within {left_s:.0f} s")
            self._terminal.stop_with_the_job()
            self._stopped_too = signal.SIGCONT in self._signals.arrived
            mine = self._terminal.mine
            self._lent = lent and mine
            if self._terminal.there and not (self._stopped_too or mine or number == signal.SIGTSTP):
                before = self._hung_up_at
                self._hang_up_at = 0.0 if before is None else before + HANG_UP_AGAIN_S
                return
        else:
            self._lent = True
        self._minder.resume(terminal=self._lent)

    def _hang_up(self, name: str) -> None:
        """Continue the command as the kernel continues an orphaned group; because of the guard it is none."""
        if self._hung_up_at is None:
            self._say(f"{name} waits for the terminal, which no shell can give it: it gets SIGHUP")
        self._hang_up_at, self._hung_up_at = None, boot_time()
        self._minder.signal(signal.SIGHUP)
        self._minder.resume(terminal=False)


def _stuck(name: str, stuck: Sequence[int]) -> str:
    """Return what to say of processes that do not die; nothing if there are none."""
    if not stuck:
        return ""
    pids = ", ".join(map(str, stuck))
    return f"processes of {name} could not be ended, and may run on all the same: {pids}"
