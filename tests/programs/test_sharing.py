"""The program that holds a member's share of the items, answered by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.deadline import Expired
from recipes._contract.operations import Checked, Entry, Listing, Ticket
from recipes._programs.crew import Beside, Ended
from recipes._programs.hold import HeldState
from recipes._programs.observing import Observer, Topic
from recipes._programs.queueing import Attempt
from recipes._programs.sharing import (
    AGAIN_S,
    MOST_AT_ONCE,
    Moved,
    Over,
    Partitioning,
    Portion,
    closed,
    give_back,
    share,
)
from recipes._programs.steps import Wait
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.members import member, pack
from recipes._rules.sharing import Sharing
from recipes.errors import ClientClosed, LockLost, SessionLost, StoreFull, StoreRefused
from tests.programs.stepping import Script, play, session
from tests.run.doubles import Box

PAUSE_S = 0.05
LABELS = {"name": "w", "recipe": "group", "mode": "exclusive", "store": "s"}


class Grant:
    """What a user has of a hold."""

    def __init__(self, hold: HeldState) -> None:
        self.hold = hold
        hold.grant = self


class Bench:
    """One member, the group as it sees it, and a crew whose every program is granted or released at once."""

    def __init__(self, count: int = 8) -> None:
        self.items = tuple(f"i{number}" for number in range(count))
        self.now = 100.0
        self.at = session()
        self.member = self.hold("a", member("a").kind)
        self.group, self.box = Topic(), Box()
        self.parts = Partitioning(self.items, self.member, self.attempt, Grant, self.lost, pause_s=PAUSE_S)
        self.user = Observer(self.parts.topic, Box())
        self.parts.topic.add(self.user)
        self.waits: set[str] = set()
        self.began: list[str] = []
        self.gave: list[HeldState] = []
        self.holds: list[HeldState] = []
        self.stopped: list[Any] = []
        self.paused: list[float | None] = []
        self.rewritten: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.then: list[Callable[[], Any]] = []

    def hold(self, name: str, kind: str = "lock") -> HeldState:
        entry = Entry(Ticket("q", kind, f"id of {name}", data=pack(name, b"")), f"q/{name}", 7)
        return HeldState(entry, self.at, "owner", self.now, {**LABELS, "name": name})

    def attempt(self, item: str) -> Attempt:
        return Attempt("q", EXCLUSIVE, lambda: item, {**LABELS, "name": item, "recipe": "partition"})

    def lost(self) -> Exception:
        return LockLost("w", 7, "gone")

    def here(self, *names: str, elsewhere: str = "") -> None:
        """Show these members of the group; all share the same items, but for those named last."""
        self.group.show(
            tuple(
                Contender(
                    f"q/{name}",
                    f"id of {name}",
                    member(name).kind,
                    mark="another" if name in elsewhere else self.parts.mark,
                    data=pack(name, b""),
                )
                for name in (*names, *elsewhere)
            )
        )

    def own(self, *names: str) -> list[str]:
        """Return the items of the member among these."""
        return [*Sharing(self.items).of(member("a").kind, [member(name).kind for name in names])]

    def beside(self, op: Beside) -> Any:
        """Have the crew go on: what asks for an item is granted it, unless it is to wait."""
        crew = op.crew
        self.paused.append(op.at_most_s)
        for key, started in list(crew.started.items()):
            if started.hold is not None:
                del crew.started[key]
                assert started.hold.release(self.now)
                self.gave.append(started.hold)
                crew.ended.append(Ended(key))
                continue
            assert isinstance(key, str)
            self.began.append(key)
            crew.lanes[key] = crew.started.pop(key)
        for key in list(crew.lanes):
            if key in crew.stopped:
                self.stopped.append(key)
                crew.ended.append(Ended(key, error=crew.stopped.pop(key)))
            elif key in self.fails:
                crew.ended.append(Ended(key, error=self.fails.pop(key)))
            elif key in self.waits:
                continue
            else:
                self.holds.append(self.hold(str(key)))
                crew.ended.append(Ended(key, self.holds[-1]))
            del crew.lanes[key]
        if not crew.ended and op.at_most_s != 0.0:
            if op.at_most_s is not None and op.at_most_s <= AGAIN_S:
                self.now += op.at_most_s
            else:
                assert self.then, "it waits for ever"
                self.then.pop(0)()

    def run(self, *then: Callable[[], Any], **answers: Any) -> Any:
        """Run it; each time that it waits, one of these happens; at the end it is closed."""
        self.then = [*then, self.close]

        def rewrite(op: Any) -> Any:
            self.rewritten.append(op.mark)
            return len(self.rewritten)

        given: dict[str, Any] = {
            "Now": lambda op: self.now,
            "Rewrite": rewrite,
            "Beside": self.beside,
            **answers,
        }
        return play(share(self.parts, Observer(self.group, self.box)), Script(**given))

    def close(self) -> None:
        self.parts.closing = True

    def shown(self) -> Portion:
        """What is shown last."""
        portion: Portion = self.parts.topic.shown[1]
        return portion

    def step(self) -> None:
        """As the user asks for the next assignment."""
        self.parts.stepped = self.shown().number


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_it_says_that_it_shares_and_holds_its_share(bench: Bench) -> None:
    seen: list[Portion] = []
    bench.here("a", "b")
    played = bench.run(lambda: seen.append(bench.shown()))
    assert bench.rewritten == [bench.parts.mark, ""], "and says at the end that it does not any more"
    (portion,) = seen
    assert [*portion.items] == bench.own("a", "b")
    assert portion.leaving == {}
    assert {one.labels["name"] for one in bench.gave} == {*portion.items}
    assert played.error is None
    assert isinstance(bench.parts.topic.error, Over)
    assert bench.parts.over


def test_nothing_is_shown_before_it_is_counted_itself(bench: Bench) -> None:
    numbers: list[int] = []
    bench.here("b")
    bench.run(
        lambda: (numbers.append(bench.parts.topic.shown[0]), bench.here("a", "b")),
        lambda: numbers.append(bench.parts.topic.shown[0]),
    )
    assert numbers == [0, 1]


def test_those_that_share_other_items_do_not_count(bench: Bench) -> None:
    seen: list[Portion] = []
    bench.here("a", elsewhere="bcd")
    bench.run(lambda: seen.append(bench.shown()))
    assert [*seen[0].items] == [*bench.items]


def test_one_without_any_item_is_shown_none() -> None:
    bench = Bench(1)
    others = [name for name in "bcdefgh" if not bench.own("a", name)]
    seen: list[Portion] = []
    bench.here("a", others[0])
    bench.run(lambda: seen.append(bench.shown()))
    assert seen[0].items == {}


def test_what_goes_to_another_is_kept_until_the_user_has_stepped_on(bench: Bench) -> None:
    seen: list[Portion] = []
    gave: list[int] = []

    def look() -> None:
        seen.append(bench.shown())
        gave.append(len(bench.gave))

    def joins() -> None:
        look()
        bench.here("a", "b")

    bench.here("a")
    bench.run(joins, look, lambda: (look(), bench.step()), look)
    left = {*bench.items} - {*bench.own("a", "b")}
    assert [len(one.items) for one in seen] == [8, *[8 - len(left)] * 3]
    assert [one.leaving.keys() for one in seen] == [set(), left, left, left]
    assert gave == [0, 0, 0, len(left)]


def test_what_the_user_released_goes_and_nothing_else(bench: Bench) -> None:
    def joins() -> None:
        bench.here("a", "b")

    def releases() -> None:
        grant = next(iter(bench.shown().leaving.values()))
        assert grant.hold.release(bench.now)

    bench.here("a")
    bench.run(joins, releases, lambda: None)
    gave = [one.labels["name"] for one in bench.gave]
    assert len(gave) == len({*gave}) == 7, "of eight the user gave one back"


def test_what_nobody_was_shown_is_given_back_at_once(bench: Bench) -> None:
    """It was granted in the moment in which it came to belong to another."""
    bench.here("a")
    seen: list[Portion] = []

    def joins(op: Beside) -> None:
        bench.beside(op)
        bench.here("a", "b")

    bench.run(lambda: seen.append(bench.shown()), Beside=[joins, bench.beside])
    left = {*bench.items} - {*bench.own("a", "b")}
    assert {one.labels["name"] for one in bench.gave[: len(left)]} == left
    assert seen[0].leaving == {}


def test_one_that_waits_for_what_is_not_its_own_any_more_stops_waiting(bench: Bench) -> None:
    left = {*bench.items} - {*bench.own("a", "b")}
    bench.waits = {*left}
    bench.here("a")
    bench.run(lambda: bench.here("a", "b"), lambda: None)
    assert {*bench.stopped} == left


def test_those_that_share_other_items_change_nothing_as_they_come(bench: Bench) -> None:
    numbers: list[int] = []
    bench.here("a")
    bench.run(lambda: bench.here("a", elsewhere="b"), lambda: numbers.append(bench.parts.topic.shown[0]))
    assert numbers == [1]


def test_one_that_ends_waits_for_nothing_any_more(bench: Bench) -> None:
    bench.waits = {"i3"}
    bench.here("a")
    bench.run(lambda: None)
    assert bench.stopped == ["i3"]
    assert len(bench.gave) == 7


def test_an_item_that_is_lost_is_asked_for_again(bench: Bench) -> None:
    seen: list[Portion] = []

    def loses() -> None:
        seen.append(bench.shown())
        bench.shown().items["i3"].hold.lose("removed")

    bench.here("a")
    bench.run(loses, lambda: seen.append(bench.shown()))
    assert bench.began.count("i3") == 2
    assert seen[0].items["i3"] is not seen[1].items["i3"]
    assert seen[0].items["i2"] is seen[1].items["i2"]


def test_one_whose_place_in_line_is_removed_asks_again(bench: Bench) -> None:
    bench.fails = {"i3": SessionLost("removed")}
    bench.here("a")
    seen: list[Portion] = []
    bench.run(lambda: seen.append(bench.shown()))
    assert bench.began.count("i3") == 2
    assert len(seen[0].items) == 8


def test_many_are_asked_for_a_hundred_at_a_time() -> None:
    bench = Bench(250)
    at_once: list[int] = []
    first = bench.beside

    def counted(op: Beside) -> None:
        at_once.append(len(op.crew.started))
        first(op)

    bench.here("a")
    bench.run(Beside=counted)
    assert at_once[:3] == [MOST_AT_ONCE, MOST_AT_ONCE, 50]
    assert [some for some in at_once[3:] if some] == [MOST_AT_ONCE, MOST_AT_ONCE, 50], "and given back"


def test_what_comes_one_by_one_is_shown_together(bench: Bench) -> None:
    bench.waits = {"i3", "i4"}
    bench.here("a")
    bench.run(lambda: bench.waits.discard("i3"), lambda: bench.waits.discard("i4"), lambda: None)
    assert any(pause is not None and 0 < pause <= PAUSE_S for pause in bench.paused)


def test_a_refusal_is_shown_and_what_is_held_is_kept(bench: Bench) -> None:
    bench.fails = {"i3": StoreRefused("s", "no")}
    bench.here("a")
    kept: list[int] = []
    bench.run(lambda: kept.append(len(bench.gave)))
    assert isinstance(bench.parts.topic.error, StoreRefused)
    assert kept == [0]
    assert bench.rewritten == [bench.parts.mark, ""], "and the others take over what is not held"
    assert len(bench.gave) == 7, "until it is closed"


def test_what_cannot_be_written_down_as_it_ends_is_tried_again(bench: Bench) -> None:
    """The others went on to leave it a share, which nobody asked for."""
    written: list[str] = []
    answers = iter([None, StoreFull("s", "no space"), StoreFull("s", "no space"), None])

    def rewrite(op: Any) -> Any:
        written.append(op.mark)
        return next(answers) or len(written)

    bench.here("a")
    own = Listing((Contender("q/a", "id of a", mark=bench.parts.mark, token=7, version=1),))
    played = bench.run(lambda: None, lambda: None, Rewrite=rewrite, List=own)
    assert played.error is None
    assert written == [bench.parts.mark, "", "", ""]
    assert bench.paused[-2:] == [AGAIN_S, AGAIN_S], "also when all was given back"
    assert bench.parts.over


def test_what_ends_with_its_client_is_not_written_down(bench: Bench) -> None:
    """Its session is being ended, and its mark goes with that."""
    answers = iter([1, ClientClosed()])
    bench.here("a")
    played = bench.run(lambda: None, Rewrite=lambda _: next(answers))
    assert played.error is None
    assert bench.parts.over
    assert next(answers, "both were asked for") == "both were asked for"


def test_a_mark_that_could_never_be_written_is_not_to_be_cleared(bench: Bench) -> None:
    bench.here("a")
    own = Listing((Contender("q/a", "id of a", token=7),))
    bench.run(Rewrite=StoreRefused("s", "no"), List=own)
    assert isinstance(bench.parts.topic.error, StoreRefused)
    assert bench.parts.over
    assert bench.paused == []


@pytest.mark.parametrize("how", ["left", "lost"])
def test_one_that_is_a_member_no_more_writes_nothing_down(bench: Bench, how: str) -> None:
    def ends() -> None:
        bench.parts.left = how == "left"
        bench.parts.closing = True
        if how == "lost":
            bench.member.lose("gone")

    bench.here("a")
    bench.run(ends)
    assert bench.rewritten == [bench.parts.mark]


def test_a_membership_that_is_lost_is_the_end(bench: Bench) -> None:
    bench.here("a")
    bench.run(lambda: bench.member.lose("gone"))
    assert isinstance(bench.parts.topic.error, LockLost)
    assert bench.rewritten == [bench.parts.mark]


def test_a_membership_that_was_lost_before_is_the_end(bench: Bench) -> None:
    bench.here("a")
    bench.run(Rewrite=SessionLost("gone"))
    assert isinstance(bench.parts.topic.error, LockLost)
    assert bench.began == []


def test_a_membership_that_is_released_gives_everything_back(bench: Bench) -> None:
    bench.here("a")
    bench.run(lambda: bench.member.release(bench.now))
    assert isinstance(bench.parts.topic.error, Over)
    assert len(bench.gave) == 8
    assert bench.rewritten == [bench.parts.mark], "nobody sees that any more"


@pytest.mark.parametrize("there", [True, False])
def test_one_that_is_not_listed_any_more_asks_whether_it_is_a_member(bench: Bench, there: bool) -> None:
    seen: list[Portion] = []
    bench.here("a")
    played = bench.run(
        lambda: bench.here("b"), lambda: seen.append(bench.shown()), Check=Checked(there, frozenset())
    )
    assert played.kinds.count("Check") == 1
    assert isinstance(bench.parts.topic.error, Over if there else LockLost)
    assert all(len(one.items) == 8 for one in seen), "and lets go of nothing meanwhile"


def test_what_comes_while_it_asks_whether_it_is_a_member_is_seen(bench: Bench) -> None:
    """Asking again for an answer that was lost drops what is notified meanwhile."""
    seen: list[Portion] = []

    def comes_back(op: Any) -> Checked:
        bench.here("a", "b")
        bench.box.events.clear()
        return Checked(True, frozenset())

    bench.here("a")
    bench.run(lambda: bench.here("b"), lambda: seen.append(bench.shown()), Check=comes_back)
    assert [*seen[0].items] == bench.own("a", "b")


def test_one_that_is_closed_while_it_asks_whether_it_is_a_member_waits_no_more(bench: Bench) -> None:
    waited: list[bool] = []

    def closed_meanwhile(op: Any) -> Checked:
        bench.close()
        return Checked(True, frozenset())

    bench.here("a")
    bench.run(
        lambda: bench.here("b"), lambda: waited.append(bench.rewritten[-1] != ""), Check=closed_meanwhile
    )
    assert waited in ([], [False])
    assert bench.parts.over


def test_an_error_of_what_is_observed_is_shown(bench: Bench) -> None:
    bench.here("a")
    bench.run(lambda: bench.group.fail(StoreRefused("s", "no")), lambda: None)
    assert isinstance(bench.parts.topic.error, StoreRefused)


@pytest.mark.parametrize("closes", [False, True])
def test_whatever_strikes_it_another_goes_on(closes: bool) -> None:
    """The items were held for as long as the membership, and nobody could give them back."""
    straight = Bench()
    straight.here("a")
    steps = len(straight.run().ops)
    for number in range(steps):
        bench, closer, again = Bench(), Box(), []
        bench.here("a")
        bench.then = [bench.close]
        bench.parts.topic.restart = again.append
        bench.parts.closers.append(closer)
        script = Script(Now=lambda op, at=bench: at.now, Rewrite=1, Beside=lambda op, at=bench: at.beside(op))
        played = play(
            share(bench.parts, Observer(bench.group, bench.box)),
            script,
            fail_at=number,
            error=KeyboardInterrupt(),
        )
        assert isinstance(played.error, KeyboardInterrupt)
        assert (bench.parts.over, bench.parts.topic.error is None or bench.parts.closing) == (False, True)
        assert len(closer.events) == 1
        held = [one for one in bench.holds if one.remaining(bench.now) > 0]
        bench.parts.topic.go_on()
        assert again == [bench.parts.topic]
        bench.parts.closing |= closes
        seen: list[Portion] = []
        own = Listing((Contender("q/a", "id of a", mark=bench.parts.mark, token=7, version=1),))
        last = bench.run(lambda at=bench, to=seen: to.append(at.shown()), List=own)
        assert last.error is None
        assert bench.parts.over
        assert isinstance(bench.parts.topic.error, Over)
        assert {*held} <= {*bench.gave}
        assert bench.rewritten[-1:] in ([""], []), "it has been cleared, if it was not yet"
        assert not any(one.remaining(bench.now) > 0 for one in bench.holds)
        if seen:
            assert [*seen[0].items] == [*bench.items]


def test_of_two_that_go_on_one_does(bench: Bench) -> None:
    """An interrupt as a thread is started says that it is not, and it runs all the same."""
    bench.parts.lapse()
    one, other = (share(bench.parts, Observer(bench.group, bench.box)) for _ in range(2))
    assert next(one) is not None
    assert [*other] == []
    one.close()


def test_who_waits_for_the_end_has_another_go_on(bench: Bench) -> None:
    again: list[Topic] = []
    bench.parts.topic.restart = again.append
    bench.parts.lapse()
    play(closed(bench.parts), Script(Wait=lambda op: setattr(bench.parts, "over", True)))
    assert again == [bench.parts.topic]


def test_a_mistake_is_the_end_of_it(bench: Bench) -> None:
    bench.close()
    played = play(share(bench.parts, Observer(bench.group, bench.box)), Script(Now=ZeroDivisionError()))
    assert isinstance(played.error, ZeroDivisionError)
    assert bench.parts.over


def test_what_drops_it_ends_it(bench: Bench) -> None:
    program = share(bench.parts, Observer(bench.group, bench.box))
    next(program)
    program.close()
    assert bench.parts.over
    assert isinstance(bench.parts.topic.error, ClientClosed)


def test_what_its_caller_ended_before_it_began_does_nothing(bench: Bench) -> None:
    assert bench.parts.claim("its caller")
    bench.parts.end()
    bench.here("a")
    played = bench.run()
    assert (played.ops, bench.began, bench.rewritten) == ([], [], [])
    assert isinstance(bench.parts.topic.error, ClientClosed)


def test_what_was_closed_as_it_began_says_nothing(bench: Bench) -> None:
    """Its mark may be that of the next partitions by then: who closed did not wait for what had not begun."""
    bench.close()
    bench.here("a")
    bench.run()
    assert (bench.began, bench.rewritten) == ([], [])
    assert isinstance(bench.parts.topic.error, Over)


def test_a_member_that_is_not_there_can_say_nothing(bench: Bench) -> None:
    bench.here("a")
    bench.run(Rewrite=None, List=Listing(()))
    assert isinstance(bench.parts.topic.error, LockLost)
    assert bench.began == []


def test_an_item_is_given_back_once(bench: Bench) -> None:
    hold = bench.hold("i0")
    bench.parts._held["i0"] = hold
    bench.close()
    assert [bench.parts.leave(bench.now) for _ in range(2)] == [hold.remaining(bench.now)] * 2
    assert [*bench.parts._crew] == [hold]
    assert play(give_back(hold), Script(Now=100.0, Withdraw=True)).events == ["group.left"]
    assert play(give_back(hold), Script(Now=100.0)).kinds == ["Now"]
    assert play(give_back(bench.hold("i1")), Script(Now=999.0)).events == ["group.lost"]


def test_whoever_closes_is_notified_when_it_is_over(bench: Bench) -> None:
    box, over = Box(), []
    bench.parts.closers.append(box)
    bench.parts.on_over = lambda: over.append(True)
    bench.here("a")
    waits = play(closed(bench.parts), Script(Wait=lambda op: setattr(bench.parts, "over", True)))
    assert waits.kinds == ["Wait"]
    bench.run()
    assert over == [True]
    assert len(box.events) == 1
    assert play(closed(bench.parts), Script()).ops == []


def test_who_closes_waits_no_longer_than_it_may(bench: Bench) -> None:
    played = play(closed(bench.parts), Script(Wait=Expired()))
    assert (played.error, played.result) == (None, None)
    assert isinstance(played.ops[0], Wait)


def test_what_was_stopped_says_why() -> None:
    assert Moved.__name__ == "Moved", "the reason in `partition.cancelled`"
