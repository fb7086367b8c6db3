"""The package with one protection taken out, and the tests that must then fail: so they can.

::

    python -m integration.faults.without            # all of them, a line for each
    python -m integration.faults.without "restored" "herd"

A process with ``RECIPES_TEST_WITHOUT=<name>`` does without it as soon as it imports anything of
``integration.faults``: pytest does, and so do the workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes._contract.operations import Renewal
from recipes._contract.protocol import Notices
from recipes._programs.hold import StoreSession
from recipes._run.runtime import Runtime
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.stream_book import WatchBook
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from tests.simulation import bugs
from tests.simulation import bugs_in_stores as in_stores
from tests.simulation.bugs import swap

__all__ = ["PROTECTIONS", "VARIABLE", "Protection", "fails_without", "take_out"]

ROOT = Path(__file__).parents[2]
VARIABLE = "RECIPES_TEST_WITHOUT"
WITHIN_S = 280


@dataclass(frozen=True, slots=True)
class Protection:
    """One thing that protects.

    Attributes:
        row: The row of the table that it belongs to.
        test: A test that must fail without it, below ``integration/faults``.
        patches: Returns what takes it out, by way of ``mock.patch``.
    """

    row: int
    test: str
    patches: Callable[[], list[Any]]


def clock_not_asked() -> list[Any]:
    return swap(StoreSession, "remaining", lambda self, now: 0.0 if self.ended else 1.0)


def abandoned_is_forgotten() -> list[Any]:
    def abandon(self: Any, call: Any, ticket: Any, place: Any = None) -> None:
        if ticket is None:
            original(self, call, ticket, place)

    original = Runtime.abandon
    return swap(Runtime, "abandon", abandon)


def lost_session_is_left() -> list[Any]:
    def abandon(self: Any, call: Any, ticket: Any, place: Any = None) -> None:
        if ticket is not None:
            original(self, call, ticket, place)

    original = Runtime.abandon
    return swap(Runtime, "abandon", abandon)


def full_store_is_asked_by_transaction() -> list[Any]:
    def txn(self: Any, compare: Any = (), then: Any = (), otherwise: Any = ()) -> Any:
        return (yield from self._post("/kv/txn", codec.txn(compare, then, otherwise)))

    return swap(EtcdProtocol, "_txn", txn)


def any_answer_renews() -> list[Any]:
    def renew(self: Any, op: Any, turn: Any) -> Any:
        yield from self._post("/lease/keepalive", {"ID": self._lease})
        return Renewal(4.0)

    return [*swap(EtcdProtocol, "renew", renew), *swap(Runtime, "session_gone", nothing)]


def names_run_into_each_other() -> list[Any]:
    return swap(Layout, "queue", lambda self, name: f"{self._base}{name}".encode())


def wall_clock() -> list[Any]:
    return swap(Runtime, "now", staticmethod(time.time))


def nothing(*_: Any) -> None:
    """Do nothing."""


NO_HELP = "test_holder_stops.py::test_fault_02_held_needs_no_help_from_a_thread"
LATE = "test_lost_replies.py::test_fault_12_create_lands_after_the_caller_has_left"
TWICE = "test_lost_replies.py::test_fault_12_reply_to_create_lost_and_the_lock_is_free"
PROTECTIONS = {
    "the clock is asked": Protection(2, f"{NO_HELP}[etcd-3.5]", clock_not_asked),
    "renewals that were missed do not count": Protection(
        7,
        "test_network.py::test_fault_07_08_one_direction_dropped[zookeeper-3.8]",
        bugs.missed_renewals_count,
    ),
    "a create is looked for before it is repeated": Protection(
        12, f"{TWICE}[zookeeper-3.8]", in_stores.create_again_without_looking
    ),
    "a withdrawn create leaves a tombstone": Protection(12, f"{LATE}[etcd-3.5]", in_stores.no_tombstone),
    "a renewal is more than an answer": Protection(
        15, "test_sessions.py::test_fault_15_session_ended_on_the_server[etcd35]", any_answer_renews
    ),
    "a cancelled watch is told": Protection(
        16,
        "test_watches.py::test_fault_16_compaction_under_a_watch[blocking-etcd-3.5]",
        lambda: swap(WatchBook, "_cancelled", nothing),
    ),
    "waiters read again": Protection(
        17, "test_watches.py::test_fault_17_every_event_lost[etcd-3.5]", bugs.never_reads_again
    ),
    "silence of a stream is noticed": Protection(
        17,
        "test_watches.py::test_fault_17_watch_stream_cut_in_silence[etcd-3.5]",
        lambda: swap(Multiplexer, "tick", nothing),
    ),
    "waiters hear of their session": Protection(
        18,
        "test_sessions.py::test_fault_18_session_expired_while_waiting[etcd35]",
        lambda: [*bugs.session_events_untold(), *bugs.never_reads_again()],  # one alone does no harm
    ),
    "what went before the watch is seen": Protection(
        19,
        "test_watches.py::test_fault_19_blocker_gone_between_listing_and_watching[etcd-3.5]",
        in_stores.watch_gap_ignored,
    ),
    "a missing node is not waited for": Protection(
        19,
        "test_watches.py::test_fault_19_blocker_gone_between_listing_and_watching[zookeeper-3.8]",
        in_stores.missing_node_is_watched,
    ),
    "numbers are not trusted near their end": Protection(
        20,
        "test_sessions.py::test_fault_20_sequence_counter_at_its_end[embedded]",
        in_stores.sequence_is_the_order,
    ),
    "a full store is asked without transactions": Protection(
        21,
        "test_full_store.py::test_fault_21_quota_used_up[etcd-3.5]",
        full_store_is_asked_by_transaction,
    ),
    "the clock is not the wall's": Protection(
        22, "test_clocks.py::test_fault_22_wall_clock_jumps_an_hour[blocking-etcd-3.5]", wall_clock
    ),
    "a fork holds nothing": Protection(
        28,
        "test_fork.py::test_fault_28_fork_while_holding[etcd-3.5]",
        lambda: swap(Runtime, "after_fork", nothing),
    ),
    "the clock is asked by who computes": Protection(
        29, "test_clocks.py::test_fault_29_renewing_starves[etcd-3.5]", clock_not_asked
    ),
    "a session that nobody keeps is given up": Protection(
        29,
        "test_clocks.py::test_fault_29_renewing_ends[zookeeper-3.8]",
        lambda: swap(Runtime, "give_up", nothing),
    ),
    "who never goes by itself is told of": Protection(
        31,
        "test_foreign.py::test_fault_31_who_is_no_contender_of_ours[etcd-3.5]",
        lambda: swap(Notices, "add", nothing),
    ),
    "renewals look after what is held": Protection(
        32,
        "test_release.py::test_fault_32_contender_of_a_holder_deleted[etcd-3.5]",
        bugs.removed_contender_unnoticed,
    ),
    "names end": Protection(
        36,
        "test_names.py::test_fault_36_names_that_are_prefixes_of_each_other[etcd-3.5]",
        names_run_into_each_other,
    ),
    "a store that went back is noticed": Protection(
        37,
        "test_restored.py::test_fault_37_store_restored_from_a_backup[etcd-3.5]",
        lambda: swap(EtcdProtocol, "_take", nothing),
    ),
    "an interrupted call is cleaned up behind": Protection(
        26,
        "test_interrupts.py::test_fault_26_a_call_cut_off_from_the_store_is_cancelled_at_once[zookeeper-3.8]",
        abandoned_is_forgotten,
    ),
    "a lost session is ended on the store": Protection(
        40,
        "test_connection.py::test_fault_40_cut_for_most_of_the_session[zookeeper-3.8]",
        lost_session_is_left,
    ),
}


def take_out(name: str) -> None:
    """Take a protection out, for the rest of this process."""
    for patch in PROTECTIONS[name].patches():
        patch.start()


def fails_without(name: str) -> str:
    """Run the test of a protection without it; returns how it failed, AssertionError if it did not."""
    protection = PROTECTIONS[name]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--no-header", "--tb=line"]
    quiet = ("COVERAGE_", "PYTEST_")  # no coverage of a package that is not the package
    environment = {key: value for key, value in os.environ.items() if not key.startswith(quiet)}
    done = subprocess.run(
        [*command, f"integration/faults/{protection.test}"],
        cwd=ROOT,
        env={**environment, VARIABLE: name},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    said = next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")
    assert done.returncode == 1, f"{protection.test} does without: {name}\n{done.stdout[-3000:]}{done.stderr}"
    assert said, f"{protection.test} did not run\n{done.stdout[-3000:]}{done.stderr}"
    return said


def main(names: list[str]) -> int:
    """Run those whose names have these words in them, or all; 1 if a test passes without its protection."""
    passed = 0
    for name, protection in PROTECTIONS.items():
        if names and not any(wanted in name for wanted in names):
            continue
        try:
            fails_without(name)
            print(f"row {protection.row}: without “{name}” fails {protection.test}", flush=True)
        except AssertionError as wrong:
            passed += 1
            print(f"row {protection.row}: WRONG: {wrong}", flush=True)
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
