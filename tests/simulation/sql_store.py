"""The model of a database as a store for simulated clients: its servers, the way there, and faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from recipes._contract.operations import Stored
from recipes._contract.protocol import Steps
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes.errors import SessionLost, StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores.redis.bells import Bells
from recipes.stores.sql.acts import Acts, Elsewhere, Starting
from recipes.stores.sql.protocol import SqlProtocol
from recipes.stores.sql.requests import Listen, Transact, Work
from recipes.stores.sql.settings import BELL
from recipes.stores.sql.tables import OBSERVERS
from tests.simulation.fates import DOUBLED, Fates
from tests.simulation.moving import Asked, Gate, Pipe, Way
from tests.simulation.sql_model import METHODS, STATEMENTS, Database, Deadlock, Duplicate, Transaction
from tests.simulation.standing import Stands
from tests.simulation.world import NEVER, Violation, World

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GRACE_S", "SqlConnection", "SqlStore"]

BROKEN, FAILED = "the connection broke", "the database refused it"
GRACE_S = 4.0
"""As long as sessions are: the shortest that may be."""
REACHED_S = 2.0
"""After how long a server that took over is known to all clients."""
NEWS_S = 1.0
"""So long after the listener is there again what begins to listen is told that something may be missing."""
IDLE_S = 1.0
"""After which the server ends a transaction whose client says nothing."""
LOOKS_S = 0.25
"""The shortest time between two looks: a schedule has no steps to spare for more."""
ROOT = "app"
START, FREE = "start", Gate()
IS_HEARD = 0.7
"""How often a caller whose write has gone astray hears that its connection broke; else it waits."""
GOES_ON = 0.5
"""How often what its caller has given up goes on."""


class Patient(SqlProtocol):
    """The protocol, which says to look again less often."""

    def enqueue(self, op: Any, context: Any) -> Steps[Any]:
        return (yield from _less_often(super().enqueue(op, context)))

    def look(self, op: Any, context: Any) -> Steps[Any]:
        return (yield from _less_often(super().look(op, context)))

    def listing(self, op: Any, context: Any) -> Steps[Any]:
        return (yield from _less_often(super().listing(op, context)))

    def read(self, op: Any, context: Any) -> Steps[Any]:
        return (yield from _less_often(super().read(op, context)))


def _less_often(steps: Steps[Any]) -> Steps[Any]:
    found = yield from steps
    due_s = found.due_s
    return found if due_s is None or due_s >= LOOKS_S else replace(found, due_s=LOOKS_S)


class SqlBells(Bells):
    """Which calls listen to what, and what was heard a moment ago."""

    def hear(self, message: Any) -> None:
        what, key = message[0], message[1:].removeprefix(f"{ROOT}:")
        if message == "open":
            return
        event = Gone(key) if what == "g" else Changed(key)
        self._kept.pop(event.ref, None)
        self._kept[event.ref] = event
        self._waiting.post(event)

    def post(self, event: Any) -> None:
        """Notify the calls of this client of what it has done itself."""
        self._waiting.post(event)


class Message:
    """An act under way: its statements there, one step each, its commit, and the reply on the way back.

    Attributes:
        adrift: It is carried out though nobody waits for it any more.
        entering: It looks first which server this is.
        statement: One that waits for a row.
        rests: For how long it says nothing after its first statement.
        quick: It was sent whole: all of it is carried out, whatever becomes of its client.
        tried: That was done, and there is more to do.
    """

    __slots__ = (
        "adrift",
        "asked",
        "asks",
        "connection",
        "db",
        "entering",
        "fate",
        "gate",
        "left",
        "priority",
        "quick",
        "replies",
        "reply",
        "request",
        "rests",
        "result",
        "statement",
        "steps",
        "t",
        "tried",
        "work",
    )

    def __init__(
        self, connection: SqlConnection, asked: Asked | None, request: Transact, fate: str | None
    ) -> None:
        self.connection = connection
        self.db = connection.store.db
        self.asked = asked
        self.request = request
        self.fate = fate
        self.adrift = asked is None
        self.rests = 0.0
        self.gate = FREE if self.adrift else connection.says
        self.reply: Any = None
        self.t: Transaction | None = None
        self.quick = self.tried = False
        self.clear()
        world = connection.world
        self.priority = world.random() if world.pct else 0.0

    def clear(self) -> None:
        """Be as it was before its transaction began."""
        self.t = self.steps = self.statement = None
        self.asks: Any = START
        self.left: Any = ()
        self.replies: list[Any] = []
        self.entering = False
        self.result: Any = None

    # Steps.

    def go(self, at: int) -> None:
        """Take a step: there, or here."""
        world = self.connection.world
        if self.gate is self.connection.hears:
            world.drop(at)
            self.answer()
        elif self.step() and (self.fate == "lost reply" or self.adrift):
            world.drop(at)
        if world.pct:
            self.priority = world.random()

    def answer(self) -> None:
        assert self.asked is not None
        if not isinstance(self.reply, Exception) and not self.asked.abandoned:
            for event in self.work.news:
                self.connection.bells.post(event)
        self.asked.answer(0, self.reply)

    def answered(self, reply: Any) -> bool:
        """Have a reply on the way back."""
        self.reply = reply
        self.gate = self.connection.hears
        return True

    def step(self) -> bool:
        """Do the next thing there; whether it was the last."""
        t, world = self.t, self.connection.world
        if self.db.dead or (t is not None and t.over):
            unsent = self.asks is not None and not self.quick
            return self.answered(StoreUnavailable("model", BROKEN, unsent=unsent))
        if not self.adrift and self.asked.abandoned:
            if self.quick or world.random() < GOES_ON:
                self.adrift = True
            else:
                self.roll_back()
                self.adrift = True  # nobody is answered
                return True
        try:
            done = self.do()
        except Deadlock:
            world.note(self.name, "deadlock")
            self.connection.store.deadlocks += 1
            self.roll_back()
            self.clear()
            return False
        except Elsewhere:
            self.connection.life = ""
            self.roll_back()
            self.clear()
            return False
        except (Starting, SessionLost, Duplicate) as error:
            self.roll_back()
            return self.answered(_as_told(error))
        if not done:
            self.wait()
        return done

    def wait(self) -> None:
        """Wait for the row that a statement needs, or for what the client sends next."""
        t = self.t
        if t is not None and t.waits:
            self.gate = t.gate = Gate(is_open=False)
        elif t is not None and self.rests:
            self.gate = Gate(is_open=False)
            store = self.connection.store
            store.resting.append((self.connection.world.now + self.rests, self.gate))
            self.rests = 0.0
        else:
            self.gate = FREE if self.adrift or self.quick else self.connection.between
        if t is not None:
            t.touched_at = self.connection.world.now

    def roll_back(self) -> None:
        if self.t is not None:
            self.db.end(self.t)

    @property
    def name(self) -> str:
        return "late" if self.asked is None else self.asked.task.name

    def do(self) -> bool:
        if self.asks is None:
            return self.commit()
        if self.asks is START:
            self.start()
        t = self.t
        if self.statement is None:
            if METHODS[id(self.left[0].statement)][0] == "kill" and self.db.takes_over(t):
                raise Violation("S2: sessions are taken for dead, and their last renewals may be lost")
            reply = self.db.begin_statement(t, self.left[0])
            if not hasattr(reply, "send"):
                return self.replied(reply)
            self.statement = reply
        try:
            t.waits = next(self.statement)
        except StopIteration as done:
            return self.replied(done.value)
        return False

    def start(self) -> None:
        """Begin the transaction."""
        connection = self.connection
        store = connection.store
        self.t = self.db.begin()
        self.entering = not connection.life
        self.work = Work(connection.starting_until_us, connection.life, store.grace_us)
        act = self.request.act
        self.quick = connection.calls and not (self.tried or self.entering or connection.starting_until_us)
        self.quick = self.quick and self.request.quick is not None
        if self.quick:
            act = self.request.quick
        if self.entering:
            act = partial(connection.acts.enter, life=self.db.life, grace_us=store.grace_us)
        self.steps = act(self.work)
        self.asks = self.left = next(self.steps)

    def replied(self, reply: Any) -> bool:
        """Take the reply of a statement, and go on to the next."""
        self.statement = None
        self.replies.append(reply)
        self.left = self.left[1:]
        if self.left:
            return False
        replies, self.replies = self.replies, []
        try:
            self.asks = self.left = self.steps.send(replies)
        except StopIteration as done:
            self.result, self.asks = done.value, None
            return self.commit() if (self.quick or self.request.reads) and not self.entering else False
        return False

    def commit(self) -> bool:
        """Make it so, and notify."""
        connection, t = self.connection, self.t
        store = connection.store
        if self.work.undo:
            self.roll_back()
        else:
            store.sees(self, t)
            for channel, said in self.db.commit(t):
                store.ring(channel, said)
            if t.wrote:
                store.wrote(self.asked)
        if self.quick and self.result is None:
            self.quick, self.tried = False, True
            self.clear()
            return False
        if not self.entering:
            return self.answered(self.result)
        connection.starting_until_us, _, connection.life = self.result
        self.clear()
        return False


def _as_told(error: Exception) -> Exception:
    """Return an error of an act as the transport raises it."""
    if isinstance(error, SessionLost):
        return error
    return StoreUnavailable("model", FAILED, unsent=True)


class SqlConnection(Way):
    """The way of one session of one client to the database: a pool of connections, and one that listens.

    A proxy may be in between: the connections live on as another server takes over.

    Attributes:
        life: Which server it has found there, when it looked last; empty: it has to look.
        starting_until_us: Until when that grants nothing.
        calls: It may send whole acts.
        deaf: It hears of nothing, as behind a proxy that gives each transaction another connection.
        hears_of: The server that it listens to; None: to none.
        between: Open while the client can send the next statement.
    """

    def __init__(self, store: SqlStore, client: Any) -> None:
        super().__init__(client)
        self.store = store
        self.acts: Any = None
        self.session = ""
        self.life, self.starting_until_us = "", 0
        self.calls = store.notifies and store.world.random() < 0.7
        self.deaf = not store.notifies or store.world.random() < 0.1
        self.hears_of: Database | None = store.db
        self.between = Gate()
        self.down = Pipe(self.world, self.hears, _call)
        self.up = Pipe(self.world, self.says, _call)
        self.here = Pipe(self.world, client.gate, _call)
        self.bells = SqlBells()
        self.disturbed_at = -NEWS_S
        self.set_gates()

    def set_gates(self) -> None:
        super().set_gates()
        self.between.open = self.says.open and self.hears.open

    def send(self, task: Any, request: Any) -> Asked:
        world, store = self.world, self.store
        world.requests += 1
        asked = Asked(world, task)
        if self.closed:  # as what had several requests to send may find it
            self.here.push(partial(asked.answer, 0, StoreUnavailable("model", BROKEN, unsent=True)))
            return asked
        if world.trace is not None:
            world.note(task.name, _said(request))
        if type(request) is Listen:
            world.mark(60, task.number)
            self.bells.listen(request.mailbox, request.refs, afresh=request.afresh)
            if world.now - self.disturbed_at < NEWS_S:
                request.mailbox.post(Disturbed())
            told = not self.deaf and self.hears_of is not None
            self.here.push(partial(asked.answer, 0, told))
            return asked
        world.mark(NUMBERS.get(name_of(request), 0), task.number)
        fate = store.fate() if store.fated and store.strikes(asked, request) else None
        if fate and fate != DOUBLED and asked.write is not None and world.random() < IS_HEARD:
            broken = Message(self, asked, request, None)
            broken.answered(StoreUnavailable("model", BROKEN))
            world.moving.append(broken)
        store.launch(partial(Message, self, asked, request), fate)
        return asked

    # What listens.

    def hear(self, said: str) -> None:
        """Have something on its way to the listener."""
        self.down.push(partial(self.bells.hear, said))

    def disturb(self) -> None:
        """The listener's connection broke: what was on its way is lost, and what comes meanwhile."""
        self.down.clear()
        self.up.clear()
        self.hears_of = None
        if not self.closed:
            self.up.push(self.subscribe)

    def subscribe(self) -> None:
        self.hears_of = self.store.db
        self.down.push(self.subscribed)

    def subscribed(self) -> None:
        """The listener is there again."""
        self.disturbed_at = self.world.now
        self.bells.disturb()

    def forget(self, mailbox: Any) -> None:
        self.bells.forget(mailbox)

    def close(self) -> None:
        self.closed = True
        self.disturb()
        self.bells.disturb()


class SqlStore(Fates):
    """A database, its standby, and what can strike them.

    Args:
        world: The schedule.
        rate: The servers' clock against true time.
        notifies: Whether it is PostgreSQL; else MySQL, which notifies nobody.

    Attributes:
        db: The server that takes writes.
        swept: The sessions whose contenders were deleted as the dead's are.
        lost_us: What was granted up to here may have been lost, by the server's clock.
        deadlocks: How many there were.
    """

    removes_late = True

    def __init__(self, world: World, *, rate: float = 1.0, notifies: bool = True) -> None:
        super().__init__(world)
        self.name = "sql" if notifies else "sql-polling"
        self.guarantees = replace(STORES["redis"], linearizable=True)
        self.notifies = notifies
        self.rate = rate
        self.statements = STATEMENTS[notifies]
        self.grace_us = round(GRACE_S * 1e6)
        self.listeners: dict[str, SqlConnection] = {}
        self.connections: list[SqlConnection] = []
        self.resting: list[tuple[float, Gate]] = []
        self.lossy = 0.0
        self.sessions = self.lives = self.deadlocks = 0
        self.version = self.lost_us = 0
        self._us = 0
        self._seen: dict[str, tuple[int, list[Stands]]] = {}
        self.swept: set[str] = set()
        self.db = self.server()
        self.operator = Acts(self.statements, ROOT, BELL, "operator")
        world.timers.append(self.next_arrival)
        world.ticks.append(self.tick)

    def server(self, upto: int = 0) -> Database:
        """Return a server that has so much of what the one before had."""
        log = self.db.log[:upto] if self.lives else ()
        self.lives += 1
        life = f"life {self.lives}"
        return Database(self.tick_us, notifies=self.notifies, life=life, log=log)

    def protocol(self, client: Any) -> SqlProtocol:
        self.sessions += 1
        session = f"{self.sessions:x}"
        connection = self.listeners[session] = client.connections[-1]
        connection.session = session
        connection.acts = Acts(self.statements, ROOT, BELL, session)
        return Patient(connection.acts, session)

    def connection(self, client: Any, on_end: Any) -> SqlConnection:
        connection = SqlConnection(self, client)
        self.connections.append(connection)
        return connection

    def tick_us(self) -> int:
        """Return what the server's clock says; no two moments are the same."""
        self._us = max(self._us + 1, int(self.world.now * self.rate * 1e6))
        return self._us

    def ring(self, channel: str, said: str) -> None:
        connection = self.listeners.get(channel.removeprefix(BELL))
        if connection is None or connection.hears_of is not self.db or connection.deaf:
            return
        if not (self.lossy and self.world.random() < self.lossy):
            connection.hear(said)

    def wrote(self, asked: Asked | None) -> None:
        """Something was committed."""
        self.version += 1
        self.by = asked
        for act in self.written:
            act()
        self.by = None

    def sees(self, message: Message, t: Transaction) -> None:
        """Look at what is about to be committed: dead is dead for good.

        The clocks of clients leave a margin, so that this alone would seldom show in what is granted.
        """
        me, expels = message.connection.session, name_of(message.request) == "expel"
        for (table, key), row in t.wrote.items():
            if table == "contender" and row is None and not expels:
                was = self.db.tables[table].get(key)
                if was is not None and was.session != me:
                    self.swept.add(was.session)
            elif table == "session" and row is not None and key in self.swept:
                lives = row.expires_at > self.world.now * self.rate * 1e6
                if lives:
                    raise Violation(f"D1: session {key} lives, and its contenders were taken for dead")

    # What strikes it.

    def restart(self) -> None:
        """End the server as a crash does, and start it again."""
        old = self.db
        self.db = Database(self.tick_us, notifies=self.notifies, life=old.life, log=old.log)
        self._leave(old)

    def promote(self, upto: int) -> None:
        """Have the standby take over, which has so much of what was committed."""
        old = self.db
        if upto < len(old.log):
            self.lost_us, self.lost_at = self.tick_us(), self.world.now
        self.db = self.server(upto)
        self.swept.clear()
        self.grants_from = self.world.now + self.grace_us / self.rate / 1e6 + REACHED_S
        self._leave(old)

    def _leave(self, old: Database) -> None:
        old.dead = True
        self.late, self.very_late = [], []  # a connection to it leads to no other server
        for t in list(old.open):
            old.end(t)
        for connection in self.connections:
            connection.disturb()
        self.wrote(None)

    @property
    def held_up(self) -> bool:
        """Whether one that gets no answers may keep the row of a queue locked, try after try."""
        return any(connection.half_cut for connection in self.connections)

    @property
    def ends_s(self) -> float:
        """How long the server needs to end what is open, if all of it is of clients that crashed."""
        return IDLE_S * len(self.db.open)

    def forgets(self, hold: Any) -> bool:
        return bool(hold.entry.token <= self.lost_us)

    def next_arrival(self) -> float:
        idle = min((t.touched_at + IDLE_S for t in self.db.open if not t.waits), default=NEVER)
        return min(idle, NEVER, *(at for at, _ in self.very_late), *(at for at, _ in self.resting))

    def tick(self) -> None:
        now = self.world.now
        for t in [t for t in self.db.open if not t.waits and t.touched_at + IDLE_S <= now]:
            if any(t in other.waits for other in self.db.open):
                self.let_go_at = now
            self.db.end(t)
        for at, gate in self.resting:
            gate.open = at <= now
        self.resting = [entry for entry in self.resting if entry[0] > now]
        due = [message for at, message in self.very_late if at <= now]
        if due:
            self.very_late = [entry for entry in self.very_late if entry[0] > now]
            for message in due:
                self.world.note(message.name, "arrives very late", _said(message.request))
                self.set_adrift(message)

    def set_adrift(self, message: Message) -> None:
        """Have an act carried out that nobody waits for."""
        message.db = self.db
        message.adrift = True
        message.gate = FREE
        self.world.moving.append(message)

    def strikes(self, asked: Asked, request: Any) -> bool:
        creates = name_of(request) in {"join", "put"}
        return super().strikes(asked, request) and (creates or not self.creates_only)

    def hold_open(self, at: float, seconds: float) -> None:
        """Have what was just sent begin at this time, and be committed so much later."""
        message = self.world.moving.pop()
        message.rests = seconds
        self.very_late.append((at, message))

    @property
    def last_comes_at(self) -> float:
        """When the last of what was held back will arrive, whatever can come of it."""
        return max((at for at, _ in self.very_late), default=0.0)

    @property
    def all_has_come_by(self) -> float:
        """When the last of what was held back, and whose client goes on, will have arrived."""
        return max((at for at, message in self.very_late if not message.connection.over), default=0.0)

    def land(self) -> None:
        """Let what is late arrive."""
        late, self.late = self.late, []
        for message in late:
            self.set_adrift(message)

    def ends_renewal(self, world: World) -> bool:
        """Whether what was just sent is a renewal."""
        last = world.moving[-1] if world.moving else None
        return type(last) is Message and name_of(last.request) == "renew"

    def at_once(self, steps: Callable[[Work], Any]) -> None:
        """Carry out an act of an operator, who ends whatever is in the way."""
        db, t, act = self.db, self.db.begin(), steps(Work())
        asks = next(act)
        try:
            while True:
                replies = []
                for ask in asks:
                    reply = db.begin_statement(t, ask)
                    while hasattr(reply, "send"):
                        try:
                            for other in next(reply):
                                db.end(other)
                        except StopIteration as done:
                            reply = done.value
                    replies.append(reply)
                asks = act.send(replies)
        except StopIteration:
            for channel, said in db.commit(t):
                self.ring(channel, said)
        self.wrote(None)

    def end_session(self, session: str) -> None:
        """End a session, as its expiry does."""

        def act(work: Work) -> Any:
            yield (self.statements.kill([session]),)

        self.at_once(act)

    def expel(self, queue: str, token: int) -> None:
        """Remove a contender by hand."""
        self.at_once(partial(self.operator.expel, queue=queue, token=token))

    # What the oracle asks.

    def standing(self, queue: str) -> list[Stands]:
        """Return all that stand in a queue, in order."""
        done, found = self._seen.get(queue, (-1, []))
        if done == self.version:
            return found
        key = f"{ROOT}:{queue}"
        there = sorted(one for one in self.db.tables["contender"].values() if one.queue == key)
        found = [
            Stands(one.token, one.id, one.kind, one.mark, one.data, one.version, int(one.session, 16))
            for one in there
        ]
        self._seen[queue] = self.version, found
        return found

    def has_session(self, session: int) -> bool:
        """Whether a session lasts; contenders that it leaves are deleted by those that find them."""
        return self.by is None or self.by.write is None or self._known(f"{session:x}")

    def _lives(self, session: str) -> bool:
        row = self.db.tables["session"].get(session)
        return row is not None and row.expires_at > self.world.now * self.rate * 1e6

    def owned(self, queue: str) -> list[tuple[int, str]]:
        """Return (session, contender id) of all in a queue whose session lives."""
        return [
            (one.session, one.contender) for one in self.standing(queue) if self._lives(f"{one.session:x}")
        ]

    def value(self, key: str) -> Stored:
        """Return a value, as it is there."""
        row = self.db.tables["value"].get(f"{ROOT}:{key}")
        return Stored() if row is None else Stored(row[1], row[0])

    def receipts(self, key: str) -> list[int]:
        """Return the session of each receipt of a value, of those that live."""
        found = [session for session, name in self.db.tables["receipt"] if name == f"{ROOT}:{key}"]
        return [int(session, 16) for session in found if self._lives(session) or not self._known(session)]

    def _known(self, session: str) -> bool:
        return session in self.db.tables["session"]

    def leftovers(self) -> list[str]:
        """Return what should not be there when every client has closed."""
        tables = self.db.tables
        left = [one.id for one in tables["contender"].values() if self._lives(one.session)]
        return left + [session for session in tables["session"] if self._lives(session)]

    def stale_watches(self) -> list[tuple[str, int, str]]:
        """Return who is to be notified of a contender that has gone: nothing deletes that row."""
        there = self.db.tables["contender"]
        return [one for one in self.db.tables["watch"] if one[1] != OBSERVERS and one[:2] not in there]

    def watch_count(self) -> int:
        """Calls that listen, of clients that live."""
        return sum(
            len(connection.bells._waiting.refs())
            for connection in self.connections
            if not connection.client.dead
        )


def name_of(request: Any) -> str:
    """Return which act a request asks for."""
    act = request.act
    return str(getattr(act, "func", act).__name__)


NUMBERS = {name: 61 + at for at, name in enumerate(sorted(vars(Acts)))}


def _said(request: Any) -> str:
    """Return a request in few words."""
    if type(request) is Listen:
        return f"Listen({' '.join(request.refs)})"
    words = getattr(request.act, "keywords", {})
    shown = (str(getattr(value, "id", getattr(value, "token", value))) for value in words.values())
    return f"{name_of(request)} {' '.join(shown)}"


def _call(message: Any) -> None:
    message()
