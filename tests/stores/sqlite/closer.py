"""A process that holds a lock, closes all descriptors that it finds, and opens files of its own.

Run as ``python -m tests.stores.sqlite.closer URL FOLDER``. It says the token; at a line on its input it
closes them; and when it has noticed the loss it says in JSON what came of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import recipes
from recipes._run.clock import boot_time
from tests.strangers import until_asleep

MANY = 60
"""More files than the package had descriptors: all numbers are used again."""
LONGEST_S = 20.0


def main(url: str, folder: Path) -> None:
    client = recipes.connect(url, session_timeout=9).open()
    grant = client.lock("x").acquire()
    print(grant.token, flush=True)
    sys.stdin.readline()
    until_asleep()
    began = boot_time()
    os.closerange(3, 256)
    theirs = [os.open(folder / str(number), os.O_RDWR | os.O_CREAT) for number in range(MANY)]
    held_until, longest = began, 0.0
    while grant.held and boot_time() - began < LONGEST_S:
        looked = boot_time()
        grant.lost.wait(0.01)
        held_until, longest = boot_time(), max(longest, boot_time() - looked)
    said: dict[str, Any] = {"began": began, "held_until": held_until, "longest_step": longest}
    said["reason"] = grant.lost_reason
    said["again"] = _error(lambda: client.lock("y").try_acquire())
    said["closing"] = _error(client.close)
    for number, descriptor in enumerate(theirs):
        os.write(descriptor, f"file {number}".encode())
        os.close(descriptor)
    print(json.dumps(said), flush=True)


def _error(do: Any) -> str:
    try:
        do()
    except BaseException as error:
        return repr(type(error)) + str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
