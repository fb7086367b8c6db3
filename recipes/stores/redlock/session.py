"""One session with several Redis servers: the same question to each, until enough of them have answered."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, ClassVar

from recipes._contract.connection import OnEnd
from recipes._contract.operations import Open
from recipes._run.clock import boot_time
from recipes.errors import StoreError
from recipes.stores._kit.cell import Drop
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import Session
from recipes.stores.redis.access import Access
from recipes.stores.redis.blocking import Link
from recipes.stores.redis.codec import facts
from recipes.stores.redis.places import Address
from recipes.stores.redis.resp import CLOSED, INCOMPLETE, Replies, packed
from recipes.stores.redis.wire import Dial, meaning
from recipes.stores.redlock.acts import Acts, Round, answers
from recipes.stores.sockets import any_ready

__all__ = ["RedlockSession"]

SCRIPT = resources.files("recipes.stores.redlock").joinpath("cells.lua").read_text("utf-8")
DIAL_S = 0.5
SILENT_S = 2.0
"""After how long a server that does not answer is connected to anew."""
PAUSES = 10
"""After a failed try to connect a server is left alone for so many times as long as that took."""
SHORTEST_PAUSE_S = 0.2


class _Voter:
    """One connection to one server; what it owes is answered in order, also to those that do not wait."""

    def __init__(self, link: Link, label: str, deadline: float) -> None:
        self._link, self._label = link, label
        info, sha = link.exchange((("INFO", "server"), ("SCRIPT", "LOAD", SCRIPT)), 2, deadline)
        for said in (info, sha):
            if isinstance(said, Exception):
                raise said
        self._sha, self._life = sha, facts(info)["run_id"]
        self._replies, self._unsent = Replies(), bytearray()
        self._asked: deque[float] = deque()  # when, for each answer that it owes

    @property
    def owes_s(self) -> float:
        """For how long the oldest answer is due."""
        return time.monotonic() - self._asked[0] if self._asked else 0.0

    @property
    def number(self) -> int:
        """That of the descriptor, to wait for; OSError if it is not ours any more."""
        if self._link.conn is None:
            raise OSError(CLOSED)
        return self._link.conn.sock.fileno()

    @property
    def full(self) -> bool:
        """Whether not all was sent."""
        return bool(self._unsent)

    def ask(self, round_: Round) -> Any:
        """Send what a round asks; what follows is as in `go_on`."""
        words = "EVALSHA", self._sha, len(round_.keys), *round_.keys, self._life, *round_.words
        self._unsent += packed((words,))
        self._asked.append(time.monotonic())
        return self.go_on()

    def go_on(self) -> Any:
        """Send and receive what can be at once; return the answer to the last round, None until it comes."""
        conn = self._link.conn
        if conn is None:
            raise OSError(CLOSED)
        if self._unsent:
            del self._unsent[: conn.send_some(self._unsent)]
        last = None
        while (data := conn.receive_some()) is not None:
            if not data:
                raise OSError(CLOSED)
            self._replies.feed(data)
        while (reply := self._replies.take()) is not INCOMPLETE:
            if isinstance(reply, Exception):  # of NOSCRIPT the next connection knows nothing
                raise reply
            if not self._asked:
                raise OSError("it answers what was not asked")
            self._asked.popleft()
            last = reply
        return None if self._asked else last

    def close(self) -> None:
        """Close it, and have nothing delivered that the server has not got yet."""
        self._link.close()


class RedlockSession(Session):
    """Carries out acts, each on connections that are free, one to each server, or on new ones."""

    parallel: ClassVar[bool] = True

    def __init__(
        self, label: str, servers: Sequence[Address], access: Access, acts: Acts, on_end: OnEnd
    ) -> None:
        super().__init__(label, on_end)
        self._servers, self._access, self._acts = servers, access, acts
        self._patience_s = DIAL_S
        self._free: list[dict[int, _Voter]] = []
        self._links: weakref.WeakSet[Any] = weakref.WeakSet()
        self._failed: dict[
            int, tuple[float, StoreError]
        ] = {}  # by server: until when it is left alone, and why
        self._closed = False

    @property
    def pause_s(self) -> float:
        """After how long to look at what is listened to, which is nothing: one that waits takes again."""
        return 1.0

    def try_once(self, command: Command, until: float) -> Any:
        """Carry out a command before a moment of the boot clock, or raise."""
        if isinstance(
            command.op, Open
        ):  # a server that is slower than this costs more of a lease than it may
            self._patience_s = max(command.op.ttl_s / 50, 0.1)
        deadline = time.monotonic() + until - boot_time()
        voters, wanted = self._unused(), lambda: not self._closed or isinstance(command.op, Drop)
        asking = self._acts.of(command)
        try:
            round_ = next(asking)
            while True:
                round_ = asking.send(self._votes(voters, round_, deadline, wanted))
        except StopIteration as done:
            self._give_back(voters)
            return done.value
        except StoreError:
            self._give_back(voters)
            raise
        except BaseException:  # what was asked for may still arrive
            _close(voters)
            raise

    def close(self, within_s: float) -> None:
        """Close what is free; what is in use is closed when it is given back."""
        del within_s
        self._closed = True
        while True:
            try:
                _close(self._free.pop())
            except IndexError:  # none is left, or another thread took the last one
                return

    def _unused(self) -> dict[int, _Voter]:
        try:
            return self._free.pop()
        except IndexError:  # all are in use
            return {}

    def _give_back(self, voters: dict[int, _Voter]) -> None:
        self._free.append(voters)
        if self._closed:
            self.close(0.0)

    def _votes(
        self, voters: dict[int, _Voter], round_: Round, deadline: float, wanted: Callable[[], bool]
    ) -> list[Any]:
        """Ask every server, and return what they answered, as soon as that is enough."""
        votes: list[Any] = [None] * len(self._servers)
        self._connect(voters, votes, deadline, wanted)
        for at in list(voters):
            self._step(voters, votes, at, lambda voter: voter.ask(round_))
        while not round_.decided(votes):
            silent = [at for at in voters if votes[at] is None]
            answered = len(answers(votes))
            slow = all(voters[at].owes_s > self._patience_s for at in silent)
            left_s = deadline - time.monotonic()
            if not silent or left_s <= 0 or (slow and answered >= self._acts.quorum):
                break
            if answered >= self._acts.quorum:
                left_s = min(left_s, self._patience_s)
            numbers: dict[int, int] = {}
            for at in silent:
                try:
                    numbers[voters[at].number] = at
                except OSError as error:  # other code has closed its descriptor
                    voters.pop(at).close()
                    votes[at] = meaning(self.label, error)
            if len(numbers) < len(silent):
                continue
            full = [number for number, at in numbers.items() if voters[at].full]
            for number in any_ready(set(numbers).difference(full), full, left_s):
                self._step(voters, votes, numbers[number], _Voter.go_on)
        return votes

    def _step(
        self, voters: dict[int, _Voter], votes: list[Any], at: int, step: Callable[[_Voter], Any]
    ) -> None:
        """Ask a server, or take what it answers; one that fails has voted with an error."""
        try:
            votes[at] = step(voters[at])
        except Exception as error:
            voters.pop(at).close()
            votes[at] = meaning(self.label, error)

    def _connect(
        self, voters: dict[int, _Voter], votes: list[Any], deadline: float, wanted: Callable[[], bool]
    ) -> None:
        """See to it that each server has a connection; one that was not reached just now is left alone."""
        for at in list(voters):
            self._step(voters, [*votes], at, _Voter.go_on)  # what it owed
            if at in voters and voters[at].owes_s > SILENT_S:
                voters.pop(at).close()
        for patient in (False, True):
            for at in range(len(self._servers)):
                until, error = self._failed.get(at, (0.0, None))
                now = time.monotonic()
                if at in voters or (patient and len(voters) >= self._acts.quorum):
                    continue
                if patient or now >= until:
                    left_s = deadline - now
                    at_most_s = left_s / 2 if patient else min(left_s, DIAL_S)
                    self._dial(voters, votes, at, now + at_most_s, wanted)
                else:
                    votes[at] = error

    def _dial(
        self,
        voters: dict[int, _Voter],
        votes: list[Any],
        at: int,
        deadline: float,
        wanted: Callable[[], bool],
    ) -> None:
        begun = time.monotonic()
        dial = Dial(self._servers[at], self._access, self._links)
        try:
            link = Link(dial, self.label, deadline, lambda: not wanted())
            try:
                voters[at] = _Voter(link, self.label, deadline)
            except BaseException:
                link.close()
                raise
        except Exception as error:
            pause_s = max((time.monotonic() - begun) * PAUSES, SHORTEST_PAUSE_S)
            votes[at] = meaning(self.label, error, unsent=True)
            self._failed[at] = time.monotonic() + pause_s, votes[at]
        else:
            votes[at] = None
            self._failed.pop(at, None)


def _close(voters: dict[int, _Voter]) -> None:
    for voter in voters.values():
        voter.close()
