"""Signals as in the foreground: a shell ignores some in what it runs in the background."""

from __future__ import annotations

import signal

__all__ = ["as_in_the_foreground"]

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


def as_in_the_foreground() -> None:
    """Ignore none of the signals that tests send to what they start, and that it has to act on."""
    for number, usual in USUAL.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
