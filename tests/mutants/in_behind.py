"""Bugs in what goes on behind a caller, or beside it: on a database, in partitions, and as others observe."""

from __future__ import annotations

from types import ModuleType

from recipes import _signals, events
from recipes._api.observing import _Observing
from recipes._api.sharing import BasePartitions
from recipes._contract import names
from recipes._programs import cleaner, queueing, rewriting, sharing
from recipes._programs.hold import HeldState
from recipes._programs.observing import Observer, Topic
from recipes._programs.reentry import Reentries, Reentry
from recipes._programs.together import Together
from recipes._rules import holding
from recipes._run import interpreter, lanes, tasks
from recipes._run.callbacks import Callbacks
from recipes._run.hub import Hub
from recipes._run.runtime import Call, Runtime
from recipes._run.tasks import AsyncRuntime
from recipes.events import Log
from recipes.fencing import connections
from recipes.fencing.file import FileGate
from recipes.grant import AsyncGrant
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.redis.wire import Wire as RedisWire
from recipes.stores.sql import carrying, ears
from recipes.stores.sql.acts import Acts
from recipes.stores.sql.blocking import SqlConnection
from recipes.stores.sql.engines import Bound
from recipes.stores.sql.protocol import SqlProtocol
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.wire import Wire
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant

__all__ = ["BEHIND"]

WHERE = "behind a caller"
ACTS, PROTOCOL = "tests/stores/test_sql_acts.py", "tests/stores/test_sql_protocol.py"
SAID = "tests/stores/test_sql_statements.py"
WIRE, ENGINES, LANES = (f"tests/stores/sql/test_{one}.py" for one in ("wire", "options", "blocking"))
SHARE, RETRIES = "tests/programs/test_sharing.py", "tests/run/test_retries.py"
SIDE_BY_SIDE, DOUBT = "tests/run/test_lanes.py", "tests/run/test_doubt.py"
ENDS, LOOPS, CALLS = (f"tests/run/test_{one}.py" for one in ("blocking", "tasks", "interpreter"))
HOLDS, AGAIN = "tests/programs/test_hold.py", "tests/programs/test_reentry.py"


def _bug(  # noqa: PLR0917 - a line each
    name: str, tests: str, owner: ModuleType | type, of: str, old: str, new: str
) -> TransportMutant:
    return TransportMutant(name, WHERE, tests, lambda: rewritten(owner, of, (old, new)))


BEHIND = [
    _bug("a renewal waits while a value is written", ACTS, Acts, "put",
         "(*said_now, say.stays(self._me))", "(say.stays(self._me), *said_now)"),
    _bug("a session may end as a value is written", ACTS, Acts, "put",
         "say.stays(self._me))", "say.alive(self._me))"),
    _bug("the receipt of what is under way is dropped", ACTS, Acts, "spend", " if name not in kept", ""),
    _bug("a receipt that is written again is dropped", SAID, Statements, "_make_tidying",
         ', receipt.c.version <= _given("version")', ""),
    _bug("a withdrawal rings for the token that was asked for", ACTS, Acts, "remove",
         "[own for (own,) in found])", "[token or own for (own,) in found])"),
    _bug("what stands with another token is left", ACTS, Acts, "remove",
         "if token is None or (bury and not removed):", "if token is None:"),
    _bug("what a standby shows proves that a contender stands", ACTS, Acts, "present",
         "expect_same(work, Seen(*rows[0]).server)", "pass"),
    _bug("a value is read of a standby", ACTS, Acts, "read", "expect_same(work, rows[0][2])", "pass"),
    _bug("what has gone is watched", SAID, Statements, "_make_watches",
         ".where(or_(token == literal_column(str(OBSERVERS)), stands))", ""),
    _bug("a look from far behind locks the queue", ACTS, Acts, "glance",
         "if any(one.over for one in seen):", "if any(one.over for one in seen) or len(seen) > 3:"),
    _bug("what was withdrawn meanwhile is withdrawn again", PROTOCOL, SqlProtocol, "renew",
         "if one in left:", "if one in self._left:"),
    _bug("a renewal fails with a withdrawal", PROTOCOL, SqlProtocol, "renew",
         "suppress(StoreError, Expired)", "suppress(StoreUnavailable)"),
    _bug("a session waits for what it tidies", PROTOCOL, SqlProtocol, "open",
         "self._tidy, behind_s=TIDY_WITHIN_S", "self._tidy"),
    _bug("what was committed is said to be unsent", WIRE, Wire, "_call",
         "progress.sent = found is not None", "progress.sent = False"),
    _bug("nothing ends what stands still on the engine of a user", WIRE, Wire, "_once",
         "with bounded(connection) if unbounded else nullcontext():", "with nullcontext():"),
    _bug("the engine of a user has other settings afterwards", WIRE, carrying, "bounded",
         "if not (connection.closed or connection.invalidated):", "if connection.closed:"),
    _bug("settings that cannot be as before are left", WIRE, carrying, "bounded",
         "                connection.invalidate()", "                pass"),
    _bug("a child uses the connections of its parent", ENGINES, Bound, "here",
         "here = os.getpid() == self._pid", "here = True"),
    _bug("what a child has made is not disposed of", ENGINES, SqlConnection, "close",
         "engine is not self._settings.theirs", "self._settings.own"),
    _bug("a renewal that connects keeps others waiting", LANES, SqlConnection, "__init__",
         "for most in WORKERS", "for most in (1, 4, 4)"),
    _bug("after an error the others leave it a share", SHARE, sharing, "_end",
         "parts.counts = parts.counts and not (yield from _leave_out(parts))", "parts.counts = False"),
    _bug("a mark that cannot be cleared is left", SHARE, sharing, "_leave_out",
         "return not member.mark", "return True"),
    _bug("one that has gone clears its mark", SHARE, sharing, "_leave_out",
         "if parts.left or member.remaining", "if False and member.remaining"),
    _bug("what is being closed is said to be open", "tests/api/test_sharing.py", BasePartitions, "__init__",
         "if before._parts.closing:", "if False:"),
    _bug("an assignment is passed over", "tests/api/test_sharing.py", BasePartitions, "_next",
         "observer.next(self._given[0])", "observer.next(observer.topic.shown[0] - bool(self._given[1]))"),
    _bug("a state is passed over", "tests/run/test_hub.py", _Observing, "_another",
         "if last != [seen]:", "self._last = number, seen\n        if last != [seen]:"),
    _bug("observing ends by the policy of single calls", RETRIES, Hub, "_watch",
         "call.lasting = not observed.fail_fast", "call.lasting = False"),
    _bug("what lasts stops asking", RETRIES, interpreter, "_ask_again",
         "call.lasting or ", ""),
    _bug("what lasts stops to wait for a session", RETRIES, interpreter, "_attach",
         " and not call.lasting", ""),
    _bug("those beside what lasts do not last", SIDE_BY_SIDE, lanes, "_lane_call",
         "call.lasting = parent.lasting", "pass"),
    _bug("a task stays cancelled", "tests/run/test_tasks.py", AsyncGrant, "__aexit__",
         "body.uncancel() <= self._cancelling", "body.cancelling() <= self._cancelling + 1"),
    _bug("the wait for the end of the whole sleeps on", ENDS, Together, "_on_end_of",
         "if self.on_end is not None:", "if False:"),
    _bug("what a lost session gave up may come behind a read", DOUBT, interpreter, "_settle_first",
         "(session, *before)", "(session,)"),
    _bug("what is another session's is settled as one's own", DOUBT, interpreter, "_settle_first",
         "if one.protocol.settles_elsewhere", "if True"),
    _bug("the end of the session before is that of the next", DOUBT, interpreter, "_settle_first",
         "if one is session:", "if True:"),
    _bug("what is settled is in doubt for ever", DOUBT, cleaner, "clean",
         "job.session.doubts.pop(job.write.number, None)", "pass"),
    _bug("what an interrupt left of a release is reported by nobody", ENDS, Runtime, "give_back",
         "hold.release_to_report(now)", "()"),
    _bug("an entry that is left reports a release", ENDS, Reentry, "release_to_report",
         "if self.last else []", "or [self.transition('released')]"),
    _bug("a release is reported twice", ENDS, HeldState, "release_to_report",
         ' or self._end.setdefault("reported", mark) is not mark', ""),
    _bug("of a multi-lock the whole is reported alone", ENDS, Together, "release_to_report",
         "[*parts, *super().release_to_report(now)]", "HeldState.release_to_report(self, now)"),
    _bug("a loss is reported twice", HOLDS, HeldState, "loss_to_report",
         '[lost] if self._end.setdefault("reported", mark) is mark else []', "[lost]"),
    _bug("the loss of what was not reported to be acquired is reported", CALLS, HeldState, "loss_to_report",
         " or not self.announced", ""),
    _bug("what is lost as it is returned is reported to last", CALLS, Call, "unwind",
         "self.runtime.report_loss(self.hold)", "pass"),
    _bug("what an interrupt left of a report is left", HOLDS, HeldState, "settle",
         'if "told" not in self._end:', 'if self._end.setdefault("told", m := (self.entry.ref,)) is m:'),
    _bug("one that leaves what is lost is not notified", AGAIN, Reentries, "leave",
         "self._unheld[reentry] = None", "pass"),
    _bug("a loss that is being reported passes over one that leaves", AGAIN, Reentries, "leave",
         "whole.settle()  # first: this is notified of a loss, too", "pass"),
    _bug("what was left while the loop seemed to end is left", LOOPS, AsyncRuntime, "_unkept",
         "if self._jobs:", "if False:"),
    _bug("what outlives a call has its context", LOOPS, tasks, "_task",
         "Context().run(asyncio.get_running_loop().create_task, ", "asyncio.get_running_loop().create_task("),
    _bug("each holder adds up those ahead of it", "tests/rules/test_permits.py", holding, "granted",
         "if rule.weight is not None:", "if False:"),
    _bug("a filter that raises ends the thread that logs", "tests/test_events.py", Log, "log",
         "except (Exception, SystemExit) as error:", "except SystemExit as error:"),
    _bug("a callback that strikes its thread keeps a place", "tests/run/test_callbacks.py", Callbacks,
         "_serve", "    finally:\n", "    except ZeroDivisionError:\n        pass\n    else:\n"),
    _bug("what other programs named hides the rest", "tests/programs/test_names.py", names, "decode",
         "except ValueError:", "except UnicodeDecodeError:"),
    _bug("a whole whose parts were released is never reported", "tests/programs/test_together.py", Together,
         "_on_end_of", "if self.was_held is None and", "if False and"),
    _bug("what one passed over stays with it", "tests/run/test_hub.py", Observer, "next",
         "self._mailbox.clear()", "pass"),
    _bug("what breaks for hours ends a wait", "tests/programs/test_queueing.py", queueing, "calm",
         "min(disturbed, MOST_DOUBLED)", "disturbed"),
    _bug("short calls never leave a silent server", "tests/stores/etcd/test_wire_dial.py", Endpoints,
         "unanswered", "max(now - attempt.began, self._silent_s)", "now - attempt.began"),
    _bug("calls beside each other count each by itself", "tests/stores/etcd/test_wire_dial.py", Endpoints,
         "unanswered", "max(attempt.began, self._silent_to)", "attempt.began"),
    _bug("an answer does not end a silence", "tests/stores/etcd/test_wire_dial.py", Endpoints,
         "answered", "self._silent_s = 0.0", "pass"),
    _bug("what other code has ended is watched by nobody", "tests/run/test_hub.py", Topic, "go_on",
         'if self._lapsed.pop("it", False):', "if False:"),
    _bug("partitions are over where other code has struck", SHARE, sharing, "share",
         "parts.lapse()", "parts.end()"),
    _bug("a descriptor is let go of that another has by now", "tests/stores/sql/test_tasks.py", ears,
         "_of_psycopg", "if not deaf.done():", "if True:"),
    _bug("what an interrupt left keeps its worker", LANES, SqlConnection, "_hang_up_late",
         "if job.until <= now:", "if False:"),
    _bug("one that cannot be connected to costs what is free", "tests/stores/redis/test_transports.py",
         RedisWire, "_dial", "self._place.lost(address)", "self._lost(address)"),
    _bug("one joins as its session ends", "tests/stores/test_redis_protocol.py", RedisProtocol, "_join",
         "if self._ended:", "if False:"),
    _bug("what a handler raises is a failure of the store's", "tests/test_signals.py", _signals, "of_a_wait",
         "if of_a_handler(error)", "if False"),
    _bug("what the struck code raises is a handler's", "tests/test_signals.py", _signals, "of_a_handler",
         "trace = trace.tb_next  # behind", "pass  # behind"),
    _bug("an alarm amid an event is logged", "tests/test_events.py", events, "_tell",
         "if of_a_handler(error):", "if False:"),
    _bug("closing makes a release a loss", "tests/programs/test_queueing.py", queueing, "release",
         "None if removed or hold.session.ended_here else REMOVED", "None if removed else REMOVED"),
    _bug("a session out of time makes a release a loss", "tests/programs/test_queueing.py", queueing,
         "release", "None if hold.session.ended_here else ended.reason", "ended.reason"),
    _bug("an older read undoes a newer mark", "tests/programs/test_rewriting.py", rewriting, "rewrite",
         "if _knows(hold, own.version):", "if False:"),
    _bug("what an interrupt left is forgotten by the next", "tests/run/test_runtime.py", Runtime, "sweep",
         "block = self.left[0]", "block = self.left.popleft()"),
    _bug("MySQL's own word on transactions is not asked", "tests/fencing/test_sql.py", connections,
         "_alone", "if isinstance(bits, int):", "if False:"),
    _bug("a fence that other code closed is not missed", "tests/fencing/test_file.py", FileGate, "_inside",
         "if fence.taken:", "if False:"),
    _bug("all that was ever made of one state is kept", "tests/run/test_hub.py", Topic, "view",
         " or len(views) >= MOST_VIEWS", ""),
]  # fmt: skip
"""Each with the tests that notice it."""
