"""Planted bugs: each must be found, or the simulation proves nothing.

A mutant replaces one thing of the package while schedules run. ``kill`` runs seed after
seed until a promise is broken, and says at which schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from recipes._contract.rule import Rule
from recipes._rules.exclusive import EXCLUSIVE
from tests.simulation import bugs, bugs_in_elections, bugs_in_groups, bugs_in_partitions, rw_bugs
from tests.simulation import bugs_in_barriers as in_barriers
from tests.simulation import bugs_in_cells as in_cells
from tests.simulation import bugs_in_multilocks as several
from tests.simulation import bugs_in_observing as observing
from tests.simulation import bugs_in_process as in_process
from tests.simulation import bugs_in_redis as in_redis
from tests.simulation import bugs_in_sql as in_sql
from tests.simulation import bugs_in_stores as in_stores
from tests.simulation import bugs_in_values as in_values
from tests.simulation.run import Schedule, Verdict, run
from tests.simulation.users import MIXED

__all__ = ["MUTANTS", "Mutant", "kill", "planted"]

LOGIC, TIMING = 1_000, 200_000
AIMED = "aimed"
ETCD, ZOOKEEPER, BOTH = ("etcd",), ("zookeeper",), ("etcd", "zookeeper")
REDIS, NOTIFIED, POLLED = ("redis",), ("sql",), ("sql-polling",)
SQL = (*NOTIFIED, *POLLED)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: What is wrong with it.
        where: Which part of the package.
        stores: On which models it shows.
        plant: Returns the patches, by way of ``mock.patch``.
        within: By how many schedules it has to be found.
        near: With which of them to begin, once one is known to find it; those before follow.
        rule: A recipe of its own, if the bug is in the predicate.
        of: What users do where it shows (`USES`).
        rules: A mixture of rules, where it takes one to show.
        flavour: In which kind of schedule it is looked for; empty: in all, as they come.
    """

    name: str
    where: str
    stores: tuple[str, ...]
    plant: Callable[[], list[Any]]
    within: int = LOGIC
    rule: Rule | None = None
    flavour: str = ""
    rules: tuple[Rule, ...] = ()
    near: int = 0
    of: str = "locks"


def kill(mutant: Mutant, store: str, most: int | None = None, first: int = 0) -> Verdict | None:
    """Run schedules until the mutant breaks a promise; None if it survives."""
    rules = mutant.rules
    if not rules and mutant.of == "locks":
        rules = (EXCLUSIVE,) if mutant.rule is None else (mutant.rule,)
    with planted(mutant):
        for seed in range(first, first + (most or mutant.within)):
            verdict = run(Schedule(store, seed, flavour=mutant.flavour, of=mutant.of, rules=rules))
            if verdict.violation is not None:
                return verdict
    return None


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Have the bug in place."""
    patches = mutant.plant()
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patches):
            patch.stop()


P, S, C, PE, PZ = "program", "session clock", "cleaner", "etcd protocol", "ZooKeeper protocol"
MUTANTS = [
    Mutant(
        "waits for the second ahead, not the nearest",
        "predicate",
        BOTH,
        list,
        rule=Rule("lock", bugs.second),
    ),
    Mutant("no look again after waking", P, BOTH, bugs.no_look_after_waking),
    Mutant("any event grants", P, BOTH, bugs.any_event_grants),
    Mutant("leaks when interrupted", P, BOTH, bugs.leak_when_interrupted),
    Mutant("leaks on timeout", P, BOTH, bugs.leak_on_timeout),
    Mutant("watches everybody ahead (a herd)", P, BOTH, bugs.watch_everybody),
    Mutant("a local release wakes nobody", P, BOTH, bugs.local_release_wakes_nobody),
    Mutant("try leaves its contender", P, ZOOKEEPER, bugs.try_leaves_its_contender),
    Mutant("a waiter never reads again", P, ETCD, bugs.never_reads_again),
    Mutant("a disturbance is ignored", P, BOTH, bugs.disturbances_ignored),
    Mutant("a release is only said", P, BOTH, bugs.release_is_only_said),
    Mutant("what was released is still held", P, BOTH, bugs.released_still_holds),
    Mutant("calls do not hear of sessions", S, BOTH, bugs.session_events_untold),
    Mutant("grants without asking the clock", S, ZOOKEEPER, bugs.admit_without_the_clock, TIMING),
    Mutant(
        "loss of the session is not seen while waiting", P, REDIS, bugs.session_loss_ignored_while_waiting
    ),
    Mutant(
        "deadline counted from the reply",
        S,
        BOTH,
        bugs.deadline_from_the_reply,
        TIMING,
        flavour=AIMED,
        near=4_900,
    ),
    Mutant("deadline without margin", S, BOTH, bugs.deadline_without_margin, TIMING, flavour=AIMED),
    Mutant("a late renewal revives", S, BOTH, bugs.late_renewal_revives, TIMING, flavour=AIMED),
    Mutant("missed renewals count", S, BOTH, bugs.missed_renewals_count),
    Mutant("a lost session is left on the store", S, ZOOKEEPER, bugs.lost_session_stays_on_the_store),
    Mutant("a removed contender goes unnoticed", S, BOTH, bugs.removed_contender_unnoticed, near=1549),
    Mutant("the cleaner tries once", C, BOTH, bugs.cleaner_tries_once),
    Mutant("the cleaner does nothing", C, BOTH, bugs.cleaner_trusts_its_first_request),
    Mutant("a withdrawn create lands late (no tombstone)", PE, ETCD, in_stores.no_tombstone),
    Mutant("what is deleted before the watch is missed", PE, ETCD, in_stores.watch_gap_ignored),
    Mutant("what is deleted between look and watch is missed", PE, ETCD, in_stores.look_gap_ignored),
    Mutant("an answered keepalive is proof", PE, ETCD, in_stores.keepalive_is_proof, TIMING, flavour=AIMED),
    Mutant("one ahead counts as none", PE, ETCD, in_stores.everybody_alone),
    Mutant("try compares nothing", PE, ETCD, in_stores.probe_compares_nothing),
    Mutant("a create without an answer is in no doubt", PE, ETCD, in_stores.no_create_is_in_doubt),
    Mutant(
        "an answer to the second of two creates is enough",
        PE,
        ETCD,
        in_stores.answer_to_the_second_ends_doubt,
    ),
    Mutant("tombstones go after a minute", PE, ETCD, in_stores.tombstones_go_after_a_minute),
    Mutant(
        "tombstones are swept, and the anchor stays as it was", PE, ETCD, in_stores.sweep_leaves_the_anchor
    ),
    Mutant("a create does not compare the anchor", PE, ETCD, in_stores.anchor_not_compared),
    Mutant("enqueues beside its tombstone", PE, ETCD, in_stores.tombstone_not_compared),
    Mutant("withdraws everybody", PZ, ZOOKEEPER, in_stores.withdraws_everybody),
    Mutant("creates again without looking", PZ, ZOOKEEPER, in_stores.create_again_without_looking),
    Mutant("the sequence number is the order", PZ, ZOOKEEPER, in_stores.sequence_is_the_order),
    Mutant(
        "a deletion told by a dying session grants",
        PZ,
        ZOOKEEPER,
        in_stores.dying_session_grants,
        TIMING,
    ),
    Mutant("a node that is gone counts as watched", PZ, ZOOKEEPER, in_stores.missing_node_is_watched),
    Mutant("a ping answered by a cut-off follower renews", PZ, ZOOKEEPER, in_stores.ping_is_renewal),
    Mutant(
        "the last answered renewal counts",
        PZ,
        ZOOKEEPER,
        in_stores.last_answered_renewal_counts,
        TIMING,
        flavour=AIMED,
    ),
    Mutant("withdraws without sync", PZ, ZOOKEEPER, in_stores.withdraw_without_sync, TIMING, near=3_200),
    Mutant("lists before it creates", PZ, ZOOKEEPER, in_stores.list_before_create),
    Mutant("moving up arms no watch", PZ, ZOOKEEPER, in_stores.look_arms_nothing),
]

PI = "handing on in process"
for _name, _plant, _flavour in (
    ("what was lost is handed on", in_process.hands_on_what_it_lost, ""),
    ("what was held for too long is handed on", in_process.hands_on_what_hung, "hung"),
    ("others ahead do not count", in_process.others_ahead_do_not_count, ""),
    ("another session is handed it", in_process.the_next_session_is_handed_what_the_last_held, ""),
    ("a release is remembered for ever", in_process.a_release_is_remembered_for_ever, ""),
    ("one that waits is taken for released", in_process.one_that_waits_is_taken_for_released, ""),
):
    MUTANTS.append(Mutant(_name, PI, BOTH, _plant, flavour=_flavour))
for _name, _plant in (
    ("an incomplete snapshot grants", in_process.an_incomplete_snapshot_grants),
    ("a reader goes as if it had been alone", in_process.a_reader_goes_as_if_it_had_been_alone),
    ("a downgrade hands on", in_process.a_downgrade_hands_on),
):
    MUTANTS.append(Mutant(_name, PI, BOTH, _plant, rules=MIXED))

RW, RP = "read-write predicate", "read-write program"
for _name, _rule in (
    ("a reader overtakes a waiting writer", rw_bugs.OVERTAKES),
    ("readers step up (a herd)", rw_bugs.HERD),
    ("a writer minds writers alone", rw_bugs.BLIND_WRITER),
    ("readers wait for readers", rw_bugs.UNSHARED),
    ("a reader never sees a downgrade", rw_bugs.STUBBORN),
):
    MUTANTS.append(Mutant(_name, RW, BOTH, list, rules=rw_bugs.mixed(_rule)))
MUTANTS.append(
    Mutant(
        "a writer goes in beside one that downgraded",
        RW,
        BOTH,
        list,
        rules=rw_bugs.mixed(rw_bugs.BESIDE_DOWNGRADED),
    )
)
for _name, _where, _stores, _plant in (
    ("a downgrade counts as shared too late", RP, BOTH, rw_bugs.shares_too_late),
    ("a downgrade is not told to the own readers", RP, BOTH, rw_bugs.own_readers_not_told),
    ("a reader does not look again", RP, BOTH, rw_bugs.no_look_when_others_were_ahead),
    ("an event of a downgrade is dropped", RP, BOTH, rw_bugs.downgrades_unwatched),
    ("readers watch for deletions alone", PE, ETCD, rw_bugs.etcd_watches_deletions_alone),
    ("a downgrade between look and watch is missed", PE, ETCD, rw_bugs.etcd_state_not_compared),
    ("downgrade by rename", PE, ETCD, rw_bugs.etcd_by_rename),
    ("a downgrade brings back what was deleted", PE, ETCD, rw_bugs.etcd_marks_whatever_is_there),
    ("downgrade by rename", PZ, ZOOKEEPER, rw_bugs.zookeeper_by_rename),
    ("a downgrade asked twice finds itself gone", PZ, ZOOKEEPER, rw_bugs.zookeeper_asked_twice_is_gone),
    ("a downgrade between look and watch is missed", PZ, ZOOKEEPER, rw_bugs.zookeeper_state_not_compared),
    ("a look does not read the state", PZ, ZOOKEEPER, rw_bugs.zookeeper_state_not_read),
):
    MUTANTS.append(Mutant(_name, _where, _stores, _plant, rules=MIXED))

HUNG = "hung"
for _name, _where, _plant in (
    ("max_hold counts from the renewal", "holders that hang", bugs.max_hold_from_the_renewal),
    ("progress brings a lost grant back", "holders that hang", bugs.progress_revives),
    ("who hangs is told and not withdrawn", "holders that hang", bugs.hung_is_told_and_not_withdrawn),
    ("who hangs holds until told", "holders that hang", bugs.hung_is_withdrawn_and_not_ended),
    ("the keeper sleeps through it", "holders that hang", bugs.keepalive_sleeps_through_it),
    ("the first to leave releases", "re-entrance", bugs.first_to_leave_releases),
    ("the last to leave releases nothing", "re-entrance", bugs.last_to_leave_releases_nothing),
):
    MUTANTS.append(Mutant(_name, _where, BOTH, _plant, flavour=HUNG))

SAYS, OBSERVES = "what contenders say", "observing"
for _name, _where, _stores, _plant in (
    ("a write that was given up lands late", SAYS, ETCD, observing.no_version_compared),
    ("a write without an answer is a loss", SAYS, BOTH, observing.lost_answer_is_a_loss),
    ("a write that was refused counts as done", SAYS, BOTH, observing.refused_counts_as_written),
    ("what was not confirmed counts as said", SAYS, BOTH, observing.said_before_confirmed),
    ("one that is gone goes on", SAYS, BOTH, observing.gone_is_still_held),
    ("one that queues again says nothing", SAYS, BOTH, observing.queues_again_without_data),
    ("a write brings back what was released", SAYS, ETCD, observing.etcd_writes_whatever_is_there),
    ("what was written outlasts its session", SAYS, ETCD, observing.etcd_writes_without_a_lease),
    ("write by delete and put", SAYS, ETCD, observing.etcd_by_delete_and_put),
    ("write by delete and create", SAYS, ZOOKEEPER, observing.zookeeper_by_delete_and_create),
    ("contenders outlast their session", SAYS, ZOOKEEPER, observing.zookeeper_nodes_that_stay),
    ("a listing has no watch", OBSERVES, BOTH, observing.lists_without_a_watch),
    ("an observer is notified once", OBSERVES, BOTH, observing.never_notified_again),
    ("observing ends with the session", OBSERVES, BOTH, observing.ends_with_the_session),
    ("an observer ignores a disturbance", OBSERVES, BOTH, observing.disturbances_unheard),
    ("the first to leave ends the watch of all", OBSERVES, BOTH, observing.first_to_leave_ends_the_watch),
    ("a watch that ended is joined", OBSERVES, BOTH, observing.watch_that_ended_is_joined),
    ("only who stands there is shown anew", OBSERVES, BOTH, observing.shows_who_and_not_what),
    ("nothing is shown twice", OBSERVES, BOTH, observing.nothing_is_shown_twice),
    ("what was before is shown", OBSERVES, BOTH, observing.shows_what_was_before),
    ("a listing may lag", OBSERVES, ZOOKEEPER, observing.zookeeper_lists_without_sync),
    (
        "a listing leaves out what went",
        OBSERVES,
        ZOOKEEPER,
        observing.zookeeper_lists_twice_at_most,
    ),
    ("a listing watches names alone", OBSERVES, ZOOKEEPER, observing.zookeeper_watches_names_alone),
    ("a listing is notified of no write", OBSERVES, ETCD, observing.etcd_watches_no_writes),
    (
        "what comes before the watch is missed",
        OBSERVES,
        ETCD,
        observing.etcd_what_comes_before_the_watch_is_missed,
    ),
    ("two lead", "election", BOTH, bugs_in_elections.two_lead),
    (
        "the last in line is shown as the leader",
        "election",
        BOTH,
        bugs_in_elections.last_in_line_is_shown,
    ),
    ("an observer is shown candidates", "election", BOTH, bugs_in_elections.candidates_are_shown),
    ("an observer is never shown that none leads", "election", BOTH, bugs_in_elections.none_is_never_shown),
):
    MUTANTS.append(Mutant(_name, _where, _stores, _plant, of="election"))

LONG = "long"
for _name, _stores, _plant, *_flavour in (
    ("waits for all that are ahead", BOTH, bugs_in_groups.waits_for_all_ahead),
    ("waits for none", BOTH, bugs_in_groups.waits_for_none),
    ("looks at the two ahead alone", BOTH, bugs_in_groups.looks_at_two_ahead),
    ("does not look for its own contender", ZOOKEEPER, bugs_in_groups.new_again_in_the_next_session, LONG),
    ("different ids have one kind", BOTH, bugs_in_groups.ids_meet),
    ("an id has a kind in each process", BOTH, bugs_in_groups.ids_differ),
    ("what waits for an id is shown as a member", BOTH, bugs_in_groups.waiting_ones_are_shown),
    ("none behind one that waits is shown", BOTH, bugs_in_groups.none_behind_a_waiting_one_is_shown),
    ("the last under an id is shown", BOTH, bugs_in_groups.last_of_an_id_is_shown),
    ("the first two are shown", BOTH, bugs_in_groups.few_are_shown),
    ("members are not shown in the order in which they came", BOTH, bugs_in_groups.shown_by_id),
    ("an update forgets the id", BOTH, bugs_in_groups.update_forgets_the_id),
    ("an update takes the id of another", BOTH, bugs_in_groups.update_takes_the_id_of_another),
    ("a member looks for itself at the head", BOTH, bugs_in_groups.own_contender_is_looked_for_among_few),
    ("an id is taken over from the member that has it", BOTH, bugs_in_groups.takes_the_id_over),
    ("a member that was removed goes unnoticed", ZOOKEEPER, bugs.removed_contender_unnoticed, LONG),
    ("an update that was given up lands late", ETCD, observing.no_version_compared),
    ("a member outlasts its session", ZOOKEEPER, observing.zookeeper_nodes_that_stay),
    ("an update outlasts its session", ETCD, observing.etcd_writes_without_a_lease),
    ("updates are not shown", BOTH, observing.shows_who_and_not_what),
):
    MUTANTS.append(Mutant(_name, "group", _stores, _plant, of="group", flavour="".join(_flavour)))

for _name, _plant, *_flavour in (
    ("parts are acquired in the order given", several.in_the_order_given),
    ("each client has an order of its own", several.in_an_order_of_each_client),
    ("a try gives nothing back", several.try_gives_nothing_back),
    ("what is late keeps what it has", several.late_ones_keep_what_they_have),
    ("the first part is not given back", several.interrupts_keep_the_first),
    ("what is given back is only said to be", several.given_back_is_only_said),
    ("a loss is not seen while another part is waited for", several.losses_unseen_while_waiting, HUNG),
    ("a loss wakes no wait", several.losses_wake_nobody, HUNG),
    ("the whole is returned though a part is lost", several.returned_though_one_is_lost, HUNG),
    ("only what was lost is acquired again", several.only_the_lost_one_is_acquired_again),
    ("only the last part has to be held", several.only_the_last_has_to_be_held, HUNG),
    ("the whole is held while a part is", several.held_while_one_is, HUNG),
    ("the whole is held while the first part is", several.held_while_the_first_is, HUNG),
    ("only one part is released", several.release_stops_at_the_first),
    ("what lost a part keeps the others", several.a_lost_whole_is_not_released),
    ("verify asks for the first part", several.verify_asks_for_the_first, LONG),
    ("what was entered again is not left", several.what_was_entered_again_is_not_left),
    ("what was entered again is released", several.what_was_entered_again_is_released),
    ("what is cancelled leaves what it had", several.cancelled_ones_leave_what_they_had),
):
    MUTANTS.append(Mutant(_name, "multi-lock", BOTH, _plant, of="multilock", flavour="".join(_flavour)))

for _name, _plant in (
    ("items have no locks", bugs_in_partitions.without_locks),
    ("all items have one lock", bugs_in_partitions.one_lock_for_all),
    ("an item is given back while its user works on it", bugs_in_partitions.gives_back_at_once),
    ("what was leaving is never given back", bugs_in_partitions.never_gives_back),
    ("a member lets go of nothing", bugs_in_partitions.keeps_what_is_anothers),
    ("an item belongs to none", bugs_in_partitions.belongs_to_none),
    ("members that do not share count", bugs_in_partitions.counts_all_members),
    ("who shares is looked at once", bugs_in_partitions.looks_once),
    ("an item that was lost is not asked for again", bugs_in_partitions.what_was_lost_is_not_asked_for),
    ("a new grant of the same item is not shown", bugs_in_partitions.new_grants_are_not_shown),
    ("what leaves is not shown", bugs_in_partitions.user_is_not_told_what_leaves),
    ("a lost member keeps its items", bugs_in_partitions.lost_member_keeps_its_items),
):
    MUTANTS.append(Mutant(_name, "partitions", BOTH, _plant, of="partitions"))

RECEIPTS, DOUBT, SHARED = "receipts", "doubt, and what was given up", "values"
for _name, _where, _stores, _plant in (
    ("a receipt says nothing", RECEIPTS, BOTH, in_values.receipt_says_nothing),
    ("a receipt says the last write alone", RECEIPTS, BOTH, in_values.receipt_says_the_last_alone),
    (
        "what another write has read is not looked at",
        RECEIPTS,
        BOTH,
        in_values.what_another_read_is_not_looked_at,
    ),
    ("a write that was refused counts as done", RECEIPTS, BOTH, in_values.refused_counts_as_done),
    ("no answer is a refusal", RECEIPTS, BOTH, in_values.no_answer_is_a_refusal),
    ("settling only looks", RECEIPTS, ETCD, in_values.settling_only_looks),
    ("a lost answer is a no", DOUBT, BOTH, in_values.lost_answer_is_a_no),
    (
        "doubt ends with an answer to the second try",
        DOUBT,
        ZOOKEEPER,
        in_values.doubt_ends_with_the_answer_to_the_last,
    ),
    ("written again on the next session", DOUBT, BOTH, in_values.written_again_on_the_next_session),
    ("nothing is settled", DOUBT, BOTH, in_values.nothing_is_settled),
    ("what was interrupted is not settled", DOUBT, BOTH, in_values.only_what_timed_out_is_settled),
    ("the cleaner settles nothing", C, ETCD, in_values.cleaner_withdraws_alone),
    ("an update compares nothing", SHARED, BOTH, in_values.update_compares_nothing),
    ("what was remembered is there", SHARED, BOTH, in_values.what_was_remembered_is_there),
    ("an update that lost a race is done", SHARED, BOTH, in_values.refused_update_is_done),
    ("whatever is there is deleted", SHARED, BOTH, in_values.deletes_whatever_is_there),
    ("a latch says what it read first", SHARED, BOTH, in_values.latch_counts_what_it_read_first),
    ("a latch opens at one", SHARED, BOTH, in_values.latch_opens_at_one),
    ("guards are not compared", "guarding", BOTH, in_values.guards_are_not_compared),
    ("the session stands for the guard", "guarding", ETCD, in_values.etcd_guard_is_the_session),
    (
        "guards are not part of the multi",
        "guarding",
        ZOOKEEPER,
        in_values.zookeeper_guards_are_looked_up_before,
    ),
    ("a receipt is not compared", PE, ETCD, in_values.etcd_receipt_is_not_compared),
    ("a version is not compared", PE, ETCD, in_values.etcd_version_is_not_compared),
    ("a receipt outlasts its session", PE, ETCD, in_values.etcd_receipt_outlasts_the_session),
    ("a value goes with its session", PE, ETCD, in_values.etcd_value_goes_with_the_session),
    ("a receipt is written behind the value", PE, ETCD, in_values.etcd_receipt_is_written_behind),
    ("versions count the writes", PE, ETCD, in_values.etcd_versions_count_writes),
    ("a change before the watch is missed", PE, ETCD, in_values.etcd_what_comes_before_the_watch_is_missed),
    ("a receipt is not compared", PZ, ZOOKEEPER, in_values.zookeeper_receipt_is_not_compared),
    ("a version is not compared", PZ, ZOOKEEPER, in_values.zookeeper_version_is_not_compared),
    ("what is not known is refused", PZ, ZOOKEEPER, in_values.zookeeper_refuses_what_it_does_not_know),
    ("a receipt outlasts its session", PZ, ZOOKEEPER, in_values.zookeeper_receipt_outlasts_the_session),
    ("a value is deleted by empty data", PZ, ZOOKEEPER, in_values.zookeeper_deletes_by_empty_data),
    ("a value is read without sync", PZ, ZOOKEEPER, in_values.zookeeper_reads_without_sync),
    ("a change before the watch is missed", PZ, ZOOKEEPER, in_values.zookeeper_watches_behind_the_read),
    ("a value is read without a watch", OBSERVES, BOTH, in_values.reads_without_a_watch),
    ("an observer lags one change behind", OBSERVES, BOTH, in_values.observer_sees_what_it_saw_before),
):
    MUTANTS.append(Mutant(_name, _where, _stores, _plant, of="values"))
_SHOWN = {
    in_barriers.given_up_ones_count: ZOOKEEPER,
    in_barriers.late_ones_of_its_own_count: NOTIFIED,
    in_barriers.comes_again_after_a_lost_session: ZOOKEEPER,
    in_barriers.record_is_not_watched: ETCD,
    # The schedules of `tests/programs/gathering.py` find these two.
    in_barriers.gone_ones_are_not_missed: (),
    in_barriers.broken_for_nobody: (),
}
for _name, _plant in in_barriers.BUGS.items():
    if _on := _SHOWN.get(_plant, BOTH):
        MUTANTS.append(Mutant(_name, "barrier", _on, _plant, of="barrier"))

SCRIPT, PR, SERVERS = "script of Redis", "Redis protocol", "bell and servers of Redis"
for _name, _where, _of, _plant, *_flavour in (
    ("a join does not look its id up", SCRIPT, "mixed", in_redis.join_does_not_look_its_id_up),
    ("nothing is buried", SCRIPT, "mixed", in_redis.nothing_is_buried),
    ("a tombstone is not looked at", SCRIPT, "mixed", in_redis.tombstone_is_not_looked_at),
    ("a contender that goes rings nobody", SCRIPT, "mixed", in_redis.going_rings_nobody),
    ("a grant is rung to all", SCRIPT, "mixed", in_redis.grants_are_rung_to_all),
    ("grants while it starts", SCRIPT, "mixed", in_redis.grants_while_it_starts),
    (
        "a reader that comes to hold keeps nothing",
        SCRIPT,
        "mixed",
        in_redis.reader_that_comes_to_hold_keeps_nothing,
        AIMED,
    ),
    (
        "a stranger is not seen by a look at what went",
        SCRIPT,
        "mixed",
        in_redis.stranger_is_not_seen_by_a_look_at_what_went,
    ),
    ("grants after a failover at once", SERVERS, "mixed", in_redis.grants_after_a_failover_at_once, AIMED),
    ("a stranger is not seen", SCRIPT, "mixed", in_redis.stranger_is_not_seen),
    ("a key that was deleted frees nothing", SCRIPT, "multilock", in_redis.deleted_key_frees_nothing, AIMED),
    ("tokens count", SCRIPT, "mixed", in_redis.tokens_count),
    ("the nearest is not shown", SCRIPT, "mixed", in_redis.nearest_is_not_shown),
    ("whatever was watched is there", SCRIPT, "permits", in_redis.whatever_was_watched_is_there),
    ("nobody listens", SCRIPT, "election", in_redis.nobody_listens),
    ("a rewrite rings nobody", SCRIPT, "election", in_redis.rewriting_rings_nobody),
    ("a rewrite compares no version", SCRIPT, "group", in_redis.any_session_may_rewrite_what_is_over),
    ("a receipt is not compared", SCRIPT, "values", in_redis.receipts_are_not_compared),
    ("a version is not compared", SCRIPT, "values", in_redis.versions_are_not_compared),
    ("a guard is not looked at", SCRIPT, "values", in_redis.guards_are_not_looked_at),
    ("a renewal names no waiters", PR, "mixed", in_redis.renewals_name_no_waiters),
    ("a renewal names nothing", PR, "mixed", in_redis.renewals_name_nothing),
    ("nothing is missing", PR, "mixed", in_redis.nothing_is_missing),
    ("own contenders count as watched", PR, "permits", in_redis.own_contenders_count_as_watched),
    ("looking watches nothing", PR, "election", in_redis.looking_watches_nothing),
    ("what was joined twice is buried once", PR, "group", in_redis.what_was_joined_twice_is_not_buried),
    ("no event is kept", SERVERS, "mixed", in_redis.nothing_is_kept),
    ("the loss of the listener is not said", SERVERS, "mixed", in_redis.losing_the_listener_is_not_said),
    ("replicas are not waited for", SERVERS, "mixed", in_redis.replicas_are_not_waited_for),
):
    MUTANTS.append(Mutant(_name, _where, REDIS, _plant, of=_of, flavour="".join(_flavour)))
MUTANTS.append(
    Mutant(
        "a grant is not confirmed", PR, REDIS, in_redis.grants_are_not_confirmed, of="mixed", near=2_055_330
    )
)

DATABASE, STATEMENTS, ACTS, PQ = "what a database does", "SQL statements", "SQL acts", "SQL protocol"
for _name, _where, _stores, _of, _plant, *_flavour in (
    ("a statement that locks reads", DATABASE, SQL, "mixed", in_sql.reads_what_was_there_before_the_lock),
    ("a read before the lock, REPEATABLE READ", DATABASE, SQL, "mixed", in_sql.repeatable_read),
    ("tokens are drawn from a sequence", DATABASE, SQL, "mixed", in_sql.tokens_are_drawn_from_a_sequence),
    ("tokens count", DATABASE, SQL, "mixed", in_sql.tokens_count),
    ("a session that is over is renewed", STATEMENTS, SQL, "mixed", in_sql.renews_what_is_over),
    ("a guard locks nothing", STATEMENTS, SQL, "values", in_sql.guard_locks_nothing),
    ("a rewrite compares no version", STATEMENTS, SQL, "group", in_sql.rewrite_compares_no_version),
    ("a tombstone is not looked at", STATEMENTS, SQL, "mixed", in_sql.join_looks_for_no_tombstone),
    (
        "a write of a session that has ended",
        STATEMENTS,
        SQL,
        "values",
        in_sql.sessions_are_not_looked_at_by_writes,
    ),
    ("the dead are passed over", ACTS, SQL, "mixed", in_sql.dead_ones_are_passed_over),
    (
        "the dead are deleted and not killed",
        ACTS,
        SQL,
        "mixed",
        in_sql.dead_ones_are_not_killed,
        AIMED,
    ),
    ("the dead stand", ACTS, SQL, "mixed", in_sql.dead_ones_stand),
    (
        "the dead are deleted while it takes over",
        ACTS,
        SQL,
        "permits",
        in_sql.dead_ones_are_deleted_while_it_takes_over,
        AIMED,
    ),
    ("grants after a failover at once", ACTS, SQL, "mixed", in_sql.grants_after_a_failover_at_once, LONG),
    ("servers are not compared", ACTS, SQL, "mixed", in_sql.servers_are_not_compared, LONG),
    ("nothing is buried", ACTS, SQL, "group", in_sql.nothing_is_buried),
    ("a contender that goes rings nobody", ACTS, NOTIFIED, "mixed", in_sql.going_rings_nobody),
    ("looks without the lock", ACTS, NOTIFIED, "election", in_sql.looks_without_the_lock),
    ("values are watched without the lock", ACTS, NOTIFIED, "values", in_sql.watches_values_without_the_lock),
    ("a try is not undone", ACTS, SQL, "mixed", in_sql.a_try_is_not_undone),
    ("a receipt is not compared", PQ, SQL, "values", in_sql.receipts_are_not_compared),
    ("a version is not compared", PQ, SQL, "values", in_sql.versions_are_not_compared),
    ("nothing says when to look again", PQ, POLLED, "mixed", in_sql.nothing_says_when_to_look_again),
    ("one behind a stranger does not look", PI, POLLED, "mixed", in_process.nobody_looks_by_time),
    ("behind any of its own it does not look", PI, POLLED, "mixed", in_process.any_of_its_own_ahead_will_do),
    ("what was joined twice is buried once", PQ, SQL, "group", in_sql.what_was_joined_twice_is_not_buried),
    ("what a standby brings back stands", PQ, SQL, "mixed", in_sql.what_a_standby_brings_back_stands),
    ("nothing is missing", PQ, SQL, "mixed", in_sql.nothing_is_missing, LONG),
    ("no event is kept", PQ, NOTIFIED, "mixed", in_sql.nothing_is_kept),
    ("the loss of the listener is not said", PQ, NOTIFIED, "mixed", in_sql.losing_the_listener_is_not_said),
):
    MUTANTS.append(Mutant(_name, _where, _stores, _plant, of=_of, flavour="".join(_flavour)))

CELLS, ACTS_OF_CELLS = "cell protocol", "acts on cells"
for _name, _where, _plant in (
    ("an event is a proof", CELLS, in_cells.events_are_proofs),
    ("a renewal names nothing", CELLS, in_cells.renewals_name_nothing),
    ("silence renews", CELLS, in_cells.silence_renews),
    ("nothing is missing", CELLS, in_cells.nothing_is_missing),
    ("what is in doubt is not dropped", CELLS, in_cells.what_is_in_doubt_is_not_dropped),
    ("a cell is dropped whoever has it", ACTS_OF_CELLS, in_cells.drops_whatever_is_there),
    ("a cell is kept whoever has it", ACTS_OF_CELLS, in_cells.keeps_whatever_is_there),
):
    MUTANTS.append(Mutant(_name, _where, ("cell",), _plant))
