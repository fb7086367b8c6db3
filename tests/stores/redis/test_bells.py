from __future__ import annotations

import pytest

from recipes._contract.wakeups import Changed, Disturbed, Event, Gone, Granted
from recipes.stores._kit.bells import MOST_KEPT
from recipes.stores.redis.bells import INVALIDATE, Bells, events_of


class Mail:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def post(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def mail() -> Mail:
    return Mail()


@pytest.fixture
def rung() -> Bells:
    return Bells()


def say(rung: Bells, content: object, channel: bytes = b"lock:~bell:me") -> None:
    rung.hear([b"message", channel, content])


def test_a_message_says_what_has_happened_in_its_order() -> None:
    assert events_of(b"reports%2Fnightly h7 g5 c9 q") == [
        Granted("reports%2Fnightly/7"),
        Gone("reports%2Fnightly/5"),
        Changed("reports%2Fnightly/9"),
        Changed("reports%2Fnightly"),
    ]


@pytest.mark.parametrize("message", [b"", b"a", b"a x5 g h1.5 c5c", b"\xff\xfe h"])
def test_what_the_script_does_not_say_is_nothing(message: bytes) -> None:
    assert not events_of(message)


def test_each_is_notified_once(rung: Bells, mail: Mail) -> None:
    other = Mail()
    rung.listen(mail, ["a/1", "a/2"])
    rung.listen(other, ["a/1"])
    say(rung, b"a g1")
    say(rung, b"a g1")
    assert mail.events == other.events == [Gone("a/1")]
    say(rung, b"a c2")
    assert mail.events == [Gone("a/1"), Changed("a/2")]


def test_an_event_that_comes_before_a_call_listens_is_delivered_then(rung: Bells, mail: Mail) -> None:
    say(rung, b"a h1 g2")
    rung.listen(mail, ["a/1"])
    assert mail.events == [Granted("a/1")]
    late = Mail()
    rung.listen(late, ["a/2"])
    assert late.events == [Gone("a/2")]


def test_of_several_events_about_one_the_last_is_kept(rung: Bells, mail: Mail) -> None:
    say(rung, b"a c1")
    say(rung, b"a g1")
    rung.listen(mail, ["a/1"])
    assert mail.events == [Gone("a/1")]


def test_an_event_that_one_call_has_got_is_kept_for_another_whose_reply_is_on_its_way(
    rung: Bells, mail: Mail
) -> None:
    late = Mail()
    rung.listen(mail, ["a/5"])
    say(rung, b"a g5")
    rung.listen(late, ["a/5"])
    assert mail.events == late.events == [Gone("a/5")]


def test_a_call_that_looks_next_is_not_bothered_with_what_was_before(rung: Bells, mail: Mail) -> None:
    say(rung, b"a g1")
    rung.listen(mail, ["a/1"], afresh=True)
    assert not mail.events
    say(rung, b"a c1")
    assert mail.events == [Changed("a/1")]


def test_what_is_kept_has_an_end_and_the_oldest_goes_first(rung: Bells, mail: Mail) -> None:
    for token in range(MOST_KEPT + 1):
        say(rung, b"a g%d" % token)
    rung.listen(mail, ["a/0"])
    assert not mail.events
    rung.listen(mail, ["a/1", f"a/{MOST_KEPT}"])
    assert mail.events == [Gone("a/1"), Gone(f"a/{MOST_KEPT}")]


def test_a_mailbox_that_was_forgotten_hears_nothing(rung: Bells, mail: Mail) -> None:
    rung.listen(mail, ["a/1"])
    rung.forget(mail)
    say(rung, b"a g1")
    assert not mail.events


def test_a_tracked_key_changes_all_that_stand_for_it(rung: Bells, mail: Mail) -> None:
    rung.track(mail, "lock:a", "a/-1")
    rung.track(mail, "lock:a", "a/-2")
    rung.track(mail, "lock:b", "b/-3")
    say(rung, [b"lock:c"], INVALIDATE)
    assert not mail.events
    say(rung, [b"lock:a"], INVALIDATE)
    assert mail.events == [Changed("a/-1"), Changed("a/-2")]
    rung.track(mail, "lock:a", "a/-1")
    mail.events.clear()
    say(rung, None, INVALIDATE)
    assert sorted(mail.events, key=str) == [Changed("a/-1"), Changed("b/-3")]


def test_a_key_that_is_invalidated_as_another_tracks_it_is_tracked_by_that_one(
    rung: Bells, mail: Mail, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Mail()
    rung.track(mail, "lock:a", "a/-1")

    class Struck(dict[bytes, dict[str, None]]):
        done = False

        def setdefault(self, key: bytes, default: dict[str, None]) -> dict[str, None]:  # type: ignore[override]
            found = super().setdefault(key, default)
            if not self.done:
                self.done = True
                say(rung, [b"lock:a"], INVALIDATE)
            return found

    monkeypatch.setattr(rung, "_tracked", Struck(rung._tracked))
    rung.track(other, "lock:a", "a/-2")
    say(rung, [b"lock:a"], INVALIDATE)
    assert mail.events == [Changed("a/-1")]
    assert other.events == [Changed("a/-2")]


def test_a_key_that_is_tracked_again_while_its_change_is_said_fails_nothing(rung: Bells) -> None:
    """By another thread, which has looked the key up just before."""

    class Tracking(Mail):
        def post(self, event: Event) -> None:
            super().post(event)
            known["a/-9"] = None

    mail = Tracking()
    rung.track(mail, "lock:a", "a/-1")
    rung.track(mail, "lock:a", "a/-2")
    known = rung._tracked[b"lock:a"]
    say(rung, [b"lock:a"], INVALIDATE)
    assert mail.events == [Changed("a/-1"), Changed("a/-2")]


def test_a_disturbance_reaches_all_once_and_empties_the_book(rung: Bells, mail: Mail) -> None:
    rung.listen(mail, ["a/1"])
    say(rung, b"a g9")
    rung.track(mail, "lock:a", "a/-1")
    rung.disturb()
    assert mail.events == [Disturbed(), Disturbed()]
    mail.events.clear()
    rung.disturb()
    say(rung, b"a g1")
    say(rung, [b"lock:a"], INVALIDATE)
    rung.listen(mail, ["a/9"])
    assert not mail.events


@pytest.mark.parametrize("message", [[b"subscribe", b"lock:~bell:me", 1], [b"pong", b""]])
def test_what_is_no_message_is_none(rung: Bells, mail: Mail, message: list[object]) -> None:
    rung.listen(mail, ["a/1"])
    rung.hear(message)
    assert not mail.events
