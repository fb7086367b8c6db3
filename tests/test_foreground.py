from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]

HEARD = """
import signal
{}
heard = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)]
print(*(one == signal.SIG_IGN for one in heard))
"""


def ignored(script: str) -> str:
    """Run a script as a shell does in the background; return which of the signals it ignores."""

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    command = [sys.executable, "-c", HEARD.format(script)]
    run = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True)
    return str(run(command, preexec_fn=ignore, check=True).stdout).strip()


def test_what_the_shell_ignored_is_heard() -> None:
    assert ignored("") == "True True True"
    script = "from tests.foreground import as_in_the_foreground; as_in_the_foreground()"
    assert ignored(script) == "False False False"
