"""The examples run, in memory or on a file; on real servers they run in ``integration/test_docs.py``."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.docs.pages import (
    BY_A_SHELL,
    EXAMPLES,
    OF_FRAMEWORKS,
    ON_FILES,
    ON_OBJECTS,
    ON_SERVERS_ONLY,
    ROOT,
    SHELL,
    TESTS,
    commands,
    example_on,
)

ELSEWHERE = OF_FRAMEWORKS | ON_SERVERS_ONLY | ON_OBJECTS | SHELL | TESTS | BY_A_SHELL
IN_MEMORY = [path for path in EXAMPLES if path.name not in ELSEWHERE]
SAYS = {
    "after_kazoo.py": "made by nightly job under token",
    "asynchronous.py": "token",
    "choosing.py": "it survives",
    "count_progress.py": "the total is 75\nand again: 75",
    "counting.py": "the number 1001\ntwo more: 1003\nbegins again at 0",
    "cron_once.py": "was done under token",
    "fence_column.py": "the late one writes: False",
    "fencing_file.py": "'catalog.json' refused token",
    "fencing_sqlalchemy.py": "all is well",
    "first_asyncio.py": "another task gets None",
    "first_await.py": "nightly report published under token",
    "first.py": "nightly report published under token",
    "electing.py": "it has resigned: None",
    "meeting.py": "all have done step 1\ngeneration 3 of barrier 'simulation/step' is broken",
    "members_alive.py": "alive: ['10.0.0.7:8000']",
    "members_async.py": "alive: ['10.0.0.7:8000']",
    "membership.py": "group 'workers' has a member 'worker-7', which did not leave within 2 s",
    "leading_lifespan.py": "requests see Leader(value='host-1:8000'",
    "leading_scheduler.py": "resigned",
    "guarded_write.py": "another client may hold it now, so stop, and acquire it again\nwhat stays: index-2",
    "entering_again.py": "moved 40 under one token",
    "entering_together.py": "under load\nunder load\nunder load\nall have left",
    "hanging.py": "it was held for 0.5 s (max_hold) without progress()",
    "inspecting.py": "nightly job holds reports/nightly exclusive under token",
    "loss_async.py": "the task itself was not cancelled: True",
    "loss_callback.py": "the work ended with -15",
    "loss_steps.py": "stopped before page 3 - ",
    "logging_standard.py": "the lock reports/nightly has token",
    "logging_structlog.py": "the lock is held, and nothing is logged",
    "migrating.py": "instance 3 found it done",
    "several.py": "while bob is held: None []",
    "metrics_otel.py": "recipes.lock.hold.duration",
    "metrics_prometheus.py": 'mode="exclusive",name="reports",outcome="acquired"',
    "timeouts.py": "session_timeout=",
    "tracing_otel.py": "lock.acquire acquired after 1 other holder(s)",
    "waiting.py": "it was free",
    "on_one_machine.py": "one process of this machine at a time; token",
    "watching.py": '"event": "lock.acquired"',
    "workers.py": "one of four at work: True",
    "permits.py": "2 permits are held by",
    "ready_latch.py": "all are ready: the load test begins",
    "setting_async.py": "from now on: {'rate': 25}",
    "setting_watch.py": "from now on: {'rate': 25}",
    "share_work.py": "works on shard-0 shard-1 shard-2 shard-3",
    "share_work_async.py": "works on shard-0 shard-1 shard-2 shard-3",
    "sharing_reads.py": "holds lock 'catalog' shared",
    "sharing_values.py": "written: True\nwritten again: False\nnow: 20 requests a second\ndeleted: None",
}

LONGER = {
    "first_fenced.py": ("session_timeout=3", "session_timeout=6"),
    "members_async.py": ("timeout(0.5)", "timeout(3.0)"),
    "share_work.py": ("Timer(0.5,", "Timer(3.0,"),
    "share_work_async.py": ("serve(client), 0.5)", "serve(client), 3.0)"),
}
"""The time that an example has for what it says, and what it has here, where a busy machine runs it."""


def with_time(example: str, text: str) -> str:
    """Return the text of an example with the time that it has here."""
    if example not in LONGER:
        return text
    page, here = LONGER[example]
    assert text.count(page) == 1, f"{example} should have {page} once"
    return text.replace(page, here)


@pytest.fixture(autouse=True)
def logs_are_as_before() -> Iterator[None]:
    """Take back what an example configured: it runs in this process."""
    loggers = [logging.getLogger(name) for name in ("", "recipes")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    structlog.reset_defaults()
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize("example", IN_MEMORY, ids=lambda path: str(path.name))
def test_it_runs_and_says_what_it_should(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where those that write a file put it
    url = f"sqlite://{tmp_path}/locks.db" if example.name in ON_FILES else f"memory://{uuid.uuid4().hex}"
    text = with_time(example.name, example_on(example, url))
    code = compile(text, example, "exec", dont_inherit=True)
    exec(code, {"__name__": "__main__"})
    assert SAYS[example.name] in capsys.readouterr().out


SHELL_SAYS = {
    "cron.sh": ["is made, under token", "was done before"],
    "elect.sh": ["one leads, token", "leads  one", "1      two", "exit code 143", "two leads, token"],
    "deploy.sh": ["old does a step", "new does a step"],
    "first_fenced.sh": ["bob wrote", "alice was refused: 'price' refused token", "[('a book', 'bob')]"],
    "first_lock.sh": ["100 visits of 100"],
    "first_race.sh": ["visits of 100"],
    "run.sh": ["one at a time", "token ", "it was free", "beside other readers"],
    "run_codes.sh": ["the command ended with 3", '"outcome": "exited"'],
    "draw.sh": ["hand-over", '"grants": 3'],
    "look.sh": ["the nightly job", "reports/nightly  exclusive", "exit code 123"],
    "values.sh": [
        '{"rate": 10}',
        "exit code 1",
        '"data": "{\\"rate\\": 25}"',
        '"data": "{\\"rate\\": 50}\\n"',
        "1001",
    ],
    "ping.sh": ["linearizable, fencing, durable", '"answers": false', "exit code 122"],
}


@pytest.mark.parametrize("name", sorted(SHELL))
def test_a_command_line_does_what_the_page_says(name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs/examples" / name).read_text().replace("/tmp/", f"{tmp_path}/")
    for program in BY_A_SHELL:
        saved = (ROOT / "docs/examples" / program).read_text()
        (tmp_path / program).write_text(with_time(program, saved))
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=tmp_path,
        env=os.environ | commands(tmp_path / "bin"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in SHELL_SAYS[name]:
        assert words in done.stdout, done.stderr


def test_the_examples_of_tests_pass() -> None:
    examples = [f"docs/examples/{name}" for name in sorted(TESTS)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", *examples]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
