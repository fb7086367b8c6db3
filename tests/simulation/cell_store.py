"""The cell store in memory as a server for simulated clients: acts that are lost, late, or done twice."""

from __future__ import annotations

from functools import partial
from typing import Any

from recipes.errors import StoreUnavailable
from recipes.guarantees import CELL
from recipes.stores._kit.cell import CellProtocol, Keep, Take
from recipes.stores.memory_cell import CellServer
from tests.simulation.fates import Fates
from tests.simulation.moving import Asked, Pipe, Way
from tests.simulation.standing import Stands
from tests.simulation.world import NEVER, World

__all__ = ["CellConnection", "CellStore"]

BROKEN = "the connection broke"
ACTS = {name: 60 + at for at, name in enumerate(("Open", "Take", "Peek", "Keep", "Drop"))}


class Message:
    """One act on its way to the server, and the reply on the way back."""

    __slots__ = ("asked", "command", "connection", "fate", "gate", "priority", "reply")

    def __init__(self, connection: CellConnection, asked: Asked, command: Any, fate: str | None) -> None:
        self.connection, self.asked, self.command, self.fate = connection, asked, command, fate
        self.gate = connection.says
        self.reply: Any = None
        world = connection.world
        self.priority = world.random() if world.pct else 0.0

    def go(self, at: int) -> None:
        """Arrive: there, then here."""
        world = self.connection.world
        if self.gate is self.connection.hears:
            world.drop(at)
            self.asked.answer(0, self.reply)
            return
        self.handled()
        if self.fate == "lost reply":
            world.drop(at)
        if world.pct:
            self.priority = world.random()

    def handled(self) -> None:
        """Have the server do it."""
        store = self.connection.store
        store.by = self.asked
        self.reply = store.server.handle(self.command)
        store.by = None
        store.acts_done += 1
        self.gate = self.connection.hears

    def land(self) -> None:
        """Arrive when nobody expects it any more; the reply goes back all the same."""
        op, store = self.command.op, self.connection.store
        self.handled()
        if type(op) is Take:
            store.landed_late.add(op.value)
        self.connection.world.moving.append(self)


class CellConnection(Way):
    """The way of one session of one client to the server: acts beside each other, and no news."""

    def __init__(self, store: CellStore, client: Any) -> None:
        super().__init__(client)
        self.store = store
        self.here = Pipe(self.world, client.gate, _call)
        self.set_gates()

    def disturb(self) -> None:
        """Nothing that it was notified of can be missed."""

    def forget(self, mailbox: Any) -> None:
        """Nobody listens."""

    def close(self) -> None:
        self.closed = True

    def send(self, task: Any, command: Any) -> Asked:
        world, store, name = self.world, self.store, type(command.op).__name__
        world.requests += 1
        asked = Asked(world, task)
        if self.closed:
            self.here.push(partial(asked.answer, 0, StoreUnavailable("model", BROKEN)))
            return asked
        if world.trace is not None:
            world.note(task.name, str(command.op))
        world.mark(ACTS[name], task.number)
        fate = store.fate() if store.fated and store.strikes(asked, command) else None
        store.launch(partial(Message, self, asked, command), fate)
        return asked


class CellStore(Fates):
    """The server, and what can strike it.

    Args:
        world: The schedule.
        rate: The server's clock against true time.

    Attributes:
        tells: Whether it notifies anybody of anything.
        landed_late: The values of takes that came when they were not expected any more: they may stand for
            as long as their leases last.
    """

    name = "cell"
    guarantees = CELL
    tells = False

    def __init__(self, world: World, *, rate: float = 1.0) -> None:
        super().__init__(world)
        self.server = CellServer(lambda: world.now * rate)
        self.connections: list[CellConnection] = []
        self.landed_late: set[str] = set()
        self.sessions = self.acts_done = 0
        world.timers.append(self.next_arrival)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> CellProtocol:
        self.sessions += 1
        return CellProtocol(f"{self.sessions:x}", client.world.random)

    def connection(self, client: Any, on_end: Any) -> CellConnection:
        connection = CellConnection(self, client)
        self.connections.append(connection)
        return connection

    # What strikes it.

    def next_arrival(self) -> float:
        return min((at for at, _ in self.very_late), default=NEVER)

    def tick(self) -> None:
        now = self.world.now
        due = [message for at, message in self.very_late if at <= now]
        if due:
            self.very_late = [entry for entry in self.very_late if entry[0] > now]
            for message in due:
                self.world.note(message.asked.task.name, "arrives very late", str(message.command.op))
                message.land()

    def strikes(self, asked: Asked, request: Any) -> bool:
        return super().strikes(asked, request) and (not self.creates_only or type(request.op) is Take)

    def land(self) -> None:
        """Let what is late arrive."""
        late, self.late = self.late, []
        for message in late:
            message.land()

    def ends_renewal(self, world: World) -> bool:
        """Whether what was just sent is a renewal."""
        last = world.moving[-1] if world.moving else None
        return type(last) is Message and type(last.command.op) is Keep

    def expel(self, queue: str, token: int) -> None:
        """Free a cell by hand, if it has this token."""
        if self.server.cell(queue).token == token:
            self.server.remove(queue)
            self.acts_done += 1

    # What the oracle asks.

    @property
    def version(self) -> int:
        """What changes with every act, and as leases end."""
        return self.acts_done

    def standing(self, queue: str) -> list[Stands]:
        """Return what holds."""
        found = self.server.queue(queue)
        return [Stands(one.token, one.id, one.kind, session=int(one.session, 16)) for one in found]

    def owned(self, queue: str) -> list[tuple[int, str]]:
        """Return (session, contender id) of what holds, unless it landed late."""
        held = self.server.cell(queue).value
        return [(one.session, one.contender) for one in self.standing(queue) if held not in self.landed_late]

    def leftovers(self) -> list[str]:
        """Return what should not be there when every client has closed."""
        return [name for name in list(self.server.cells) if self.owned(name)]

    def watch_count(self) -> int:
        """Return how many listen: nobody can."""
        return 0


def _call(message: Any) -> None:
    message()
