"""What calls of one session are notified of, whichever comes first: the reply, or the event."""

from __future__ import annotations

from recipes._contract.wakeups import Changed, Event, Gone
from recipes.stores.redis.bells import Bells

CHANNEL = b"app:~bell:1"


class Mailbox:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def post(self, event: Event) -> None:
        self.events.append(event)


def test_an_event_that_one_call_has_got_is_kept_for_another_whose_reply_is_on_its_way() -> None:
    bells, first, second = Bells(), Mailbox(), Mailbox()
    bells.listen(first, ["q/5"])
    bells.hear((b"message", CHANNEL, b"q g5"))
    bells.listen(second, ["q/5"])
    assert first.events == second.events == [Gone("q/5")]


def test_a_call_that_looks_next_is_not_notified_of_what_was_before() -> None:
    bells, mailbox = Bells(), Mailbox()
    bells.hear((b"message", CHANNEL, b"q c5 q"))
    bells.listen(mailbox, ["q/5", "q"], afresh=True)
    assert mailbox.events == []
    bells.hear((b"message", CHANNEL, b"q c5"))
    assert mailbox.events == [Changed("q/5")]
