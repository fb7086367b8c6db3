"""Holds a lock until it is killed: ``python -m bench.holder URL NAME SESSION_S``; says so once it holds."""

from __future__ import annotations

import sys
import threading

import recipes


def hold(url: str, name: str, session_s: float) -> None:
    """Hold for good, and renew."""
    with recipes.connect(url, session_timeout=session_s) as client, client.lock(name):
        print("held", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2], float(sys.argv[3]))
