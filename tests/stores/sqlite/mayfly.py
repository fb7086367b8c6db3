"""A process that takes and releases a lock until it is killed; each token is a line on its output.

Run as ``python -m tests.stores.sqlite.mayfly URL``.
"""

from __future__ import annotations

import sys

import recipes


def main() -> None:
    with recipes.connect(sys.argv[1], session_timeout=30) as client:
        lock = client.lock("x")
        while True:
            with lock as grant:
                print(grant.token, flush=True)


if __name__ == "__main__":
    main()
