"""A signal whose handler raises, at a moment of the test's choice."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from integration.harness.process import eventually

__all__ = ["alarm"]

PATIENCE_S = 60.0


@contextlib.contextmanager
def alarm(raised: type[BaseException], when: Callable[[], bool]) -> Iterator[None]:
    """Have a signal handler raise in the main thread as soon as ``when()``."""

    def handle(*_: object) -> None:
        raise raised("of the handler")

    def strike() -> None:
        assert eventually(when, PATIENCE_S, every_s=0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    striking = threading.Thread(target=strike)
    try:
        striking.start()
        yield
    finally:
        striking.join()
        signal.signal(signal.SIGUSR1, before)
