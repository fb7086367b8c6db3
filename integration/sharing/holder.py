"""A process that holds a lock until its input ends, or it is killed.

Run as ``python -m integration.sharing.holder URL NAME SIDE SESSION_S``.
"""

from __future__ import annotations

import sys

from integration.opening import opened
from integration.sharing.meeting import side_of

if __name__ == "__main__":
    url, name, side, session_s = sys.argv[1:]
    with (
        opened(url, session_timeout=float(session_s), restart_grace=0) as client,
        side_of(client, name, side).acquire(timeout=60),
    ):
        print("ready", flush=True)
        sys.stdin.read()
