"""The guard of a command, at one moment: in a process of its own, since it takes signals."""

from __future__ import annotations

import json
import os
import subprocess
import sys

EXITS_AMID_A_LOOK = """
import os, socket
from recipes.cli.running.guard import Guard

run, control = socket.socketpair()
guard = Guard(control)
stay, go = os.pipe()
child = os.fork()
if child == 0:
    os.read(stay, 1)
    os._exit(3)
guard._child = child
asked = os.waitid

def waitid(kind, number, options):
    found = asked(kind, number, options)
    if kind == os.P_PID and options & os.WEXITED:
        assert found is None
        os.write(go, b".")
        asked(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # until it has exited
    return found

os.waitid = waitid
assert not guard._look()
os.waitid = asked
assert guard._look()
print(run.recv(1000).decode())
"""


def test_a_command_that_exits_between_two_looks_is_seen_by_the_next() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXITS_AMID_A_LOOK], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["told"], os.waitstatus_to_exitcode(told["status"])) == ("ended", 3)
