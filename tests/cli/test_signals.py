"""Which signals interrupt ``recipes run``, and which are kept for the command."""

from __future__ import annotations

import contextlib
import select
import signal
from collections.abc import Iterator

import pytest

from recipes.cli.running import signals as module
from recipes.cli.running.signals import ENDING, Signals, Struck


class Clock:
    """A clock that is moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "boot_time", clock)
    return clock


@pytest.fixture
def signals(clock: Clock) -> Iterator[Signals]:
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGUSR1, signal.SIGCONT)}
    with Signals() as signals:
        yield signals
    assert {number: signal.getsignal(number) for number in before} == before


def strike(number: signal.Signals) -> bool:
    """Send a signal to this process; returns whether it interrupted."""
    with contextlib.suppress(Struck):
        signal.raise_signal(number)
        return False
    return True


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_interrupts_and_says_which_it_was(signals: Signals, number: signal.Signals) -> None:
    with pytest.raises(Struck) as caught:
        signal.raise_signal(number)
    assert caught.value.number == number
    assert isinstance(caught.value, KeyboardInterrupt)


def test_later_ones_do_not_until_the_clean_up_has_had_its_time(signals: Signals, clock: Clock) -> None:
    assert strike(signal.SIGINT)
    assert not any(map(strike, ENDING))
    clock.now += 9.9
    assert not any(map(strike, ENDING))
    clock.now += 0.2
    assert all(map(strike, ENDING))


def test_what_ends_without_a_signal_is_not_cut_off_either(signals: Signals, clock: Clock) -> None:
    signals.spare()
    clock.now += 5
    signals.spare()
    assert not strike(signal.SIGTERM)
    clock.now += 5
    assert strike(signal.SIGTERM)


def test_once_there_is_a_command_all_are_kept_for_it(signals: Signals) -> None:
    signals.collect()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
        assert not strike(number)
    assert list(signals.arrived) == [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM]
    assert select.select([signals], [], [], 5)[0] == [signals]
    signals.heard()
    assert select.select([signals], [], [], 0)[0] == []


def test_when_the_command_has_ended_they_interrupt_again(signals: Signals) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    signals.collect()
    assert not strike(signal.SIGUSR1)
    assert not strike(signal.SIGHUP)
    signals.arrived.clear()  # passed on: a daemon reads its configuration again
    signals.let_end()
    assert signal.getsignal(signal.SIGUSR1) == before
    assert strike(signal.SIGHUP)
    signals.collect()
    assert not strike(signal.SIGTERM)
    assert list(signals.arrived) == [signal.SIGTERM]


@pytest.mark.parametrize("number", sorted({*ENDING} - {signal.SIGHUP}))
def test_one_that_asked_the_command_to_end_is_not_forgotten(signals: Signals, number: signal.Signals) -> None:
    signals.collect()
    assert not strike(number)
    signals.arrived.clear()  # passed on
    with pytest.raises(Struck) as caught:
        signals.let_end()
    assert caught.value.number == number
    assert not strike(number), "what has begun is not cut off"


@pytest.mark.parametrize("number", ENDING)
def test_one_that_came_too_late_to_be_passed_on_is_not_forgotten(
    signals: Signals, number: signal.Signals
) -> None:
    signals.collect()
    assert not strike(number)
    with pytest.raises(Struck) as caught:
        signals.let_end()
    assert caught.value.number == number


def test_what_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            assert signal.SIGHUP in signals.ignored
            assert not strike(signal.SIGHUP)
            signals.collect()
            assert not strike(signal.SIGHUP)
            assert not signals.arrived
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
