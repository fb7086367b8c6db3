"""What a lock, or a counter, should stand, one check for each bug that some client was seen with.

`BUGS` is the list, in the order of the table in docs/internals/peers.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from integration.peers import counting, holding, queues, waiting
from integration.peers.stage import Stage

__all__ = ["BUGS", "Bug"]

Check = Callable[[Stage], None]


@dataclass(frozen=True)
class Bug:
    """One row of the table.

    Attributes:
        said: What should be so.
        check: Sees whether it is.
        long: It takes seconds.
        worn: It needs a ZooKeeper whose counters are near their end.
    """

    said: str
    check: Check
    long: bool = False
    worn: bool = False

    def __str__(self) -> str:
        return self.check.__name__


BUGS = (
    Bug("The reply to an acquire is lost: held once, or not at all", holding.lost_reply_to_acquire),
    Bug("The reply to a release is lost: released, and it says so", holding.lost_reply_to_release),
    Bug("A try that fails leaves nothing on the store", holding.try_leaves_nothing),
    Bug(
        "A wait that ends as the connection is lost leaves nothing",
        waiting.timeout_leaves_nothing,
        long=True,
    ),
    Bug("A wait that is interrupted (Ctrl-C) leaves nothing", waiting.interrupt_leaves_nothing, long=True),
    Bug("A timeout is kept while the store is silent", waiting.deadline_in_silence, long=True),
    Bug("One timeout for the whole wait", waiting.deadline_is_one, long=True),
    Bug("`timeout=` 0, 0.3 and None mean what they say", waiting.timeouts_mean_the_same, long=True),
    Bug("The holder knows before the store frees the lock", holding.told_before_it_is_freed, long=True),
    Bug(
        "The holder learns that its session or lease was ended",
        holding.told_when_it_is_ended,
        long=True,
    ),
    Bug("`with` never runs unheld", holding.with_never_runs_unheld),
    Bug("A release after a loss leaves the next holder alone", holding.release_after_a_loss),
    Bug("A second acquire leaves the first grant alone", holding.second_acquire_changes_nothing, long=True),
    Bug("Two threads take turns at one lock object", holding.two_threads_take_turns),
    Bug("A forked child holds nothing", holding.forked_child_holds_nothing, long=True),
    Bug("A waiter outlives a short loss of its connection", waiting.reconnect_while_waiting, long=True),
    Bug("A waiter whose session ends queues again", waiting.session_ends_while_waiting, long=True),
    Bug("A waiter outlives a compaction", waiting.compaction_while_waiting),
    Bug("The counter of sequential nodes comes to its end", queues.counter_ends, worn=True),
    Bug("Unicode and 1 000 characters are names", queues.any_text_is_a_name),
    Bug("An empty name is refused before anything is sent", queues.no_name_is_refused),
    Bug("A foreign contender ahead is waited for", queues.foreign_contender),
    Bug("An orphaned contender ahead is waited for", queues.orphaned_contender),
    Bug("A malformed entry in the queue is survived, and left alone", queues.malformed_contender),
    Bug("A lock and a reader of one name exclude each other", queues.reader_and_lock),
    Bug("A directory that was removed is made again", queues.removed_directory),
    Bug("The reply to an addition is lost: it counts once", counting.lost_reply_to_an_addition),
)
