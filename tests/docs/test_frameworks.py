"""The examples for frameworks do what their page says; each runs in processes of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import servers
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "docs/examples"
DRIVERS = {
    "web_fastapi": """
from fastapi.testclient import TestClient
import recipes, web_fastapi
with TestClient(web_fastapi.app) as http, recipes.connect("sqlite://./locks.db") as other:
    print(http.post("/orders/7/ship").status_code)
    with other.lock("orders/7"):
        print(http.post("/orders/7/ship").status_code, http.post("/orders/8/ship").status_code)
    print(sorted(http.post("/orders/7/ship").json()))
""",
    "web_django": """
from django.conf import settings
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF="urls")
import sys, types
import django
django.setup()
import recipes, web_django
from django.test import Client
from django.urls import path
sys.modules["urls"] = types.SimpleNamespace(urlpatterns=[path("<str:month>", web_django.close_month)])
with recipes.connect("sqlite://./locks.db") as other:
    print(Client().post("/2026-10").status_code)
    with other.lock("close/2026-10"):
        print(Client().post("/2026-10").status_code, Client().post("/2026-11").status_code)
web_django.client.close()
""",
    "tasks_celery": """
import celery.exceptions
import recipes, tasks_celery
tasks_celery.app.conf.task_always_eager = True
with recipes.connect("sqlite://./locks.db") as other:
    print(tasks_celery.rebuild_index.apply(["ada"]).get())
    with other.lock("index/ada"):
        tasks_celery.rebuild_index.max_retries = 0
        try:
            tasks_celery.rebuild_index.apply(["ada"]).get()
        except celery.exceptions.MaxRetriesExceededError:
            print("would be retried")
tasks_celery.client.close()
""",
    "jobs_apscheduler": "import jobs_apscheduler",
}
SAYS = {
    "web_fastapi": r"200\n409 200\n\['shipped', 'token'\]\n",
    "web_django": r"200\n409 200\n",
    "tasks_celery": r"index of ada rebuilt under token \d+\nwould be retried\n",
    "jobs_apscheduler": r"(report made under token \d+\n)+",
}
APPLICATION = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]
"""


@pytest.mark.parametrize("example", DRIVERS)
def test_an_example_of_a_framework(example: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVERS[example]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(SAYS[example], done.stdout)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    kind, step = getattr(request, "param", ("sync", ""))
    (tmp_path / "application.py").write_text(APPLICATION)
    configuration = tmp_path / "gunicorn.conf.py"
    example = (EXAMPLES / "web_gunicorn.py").read_text()
    printed = '            print("worker", '
    assert printed in example
    configuration.write_text(example.replace(printed, f"{step}\n{printed}"))
    kinds = ["--worker-class", kind, "--timeout", "600"]  # seconds; it would hide a worker that hangs
    command = ["-c", str(configuration), *kinds, "--bind", "127.0.0.1:0", "--no-control-socket"]
    with subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *command, "application:app"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        yield started
        started.terminate()
        started.communicate(timeout=60)


def test_one_worker_of_gunicorn_leads_and_another_takes_over(server: subprocess.Popen[str]) -> None:
    first = leaders(server)
    leader = next(first)
    assert [next(first) for _ in range(2)] == [leader, leader]
    os.kill(leader, signal.SIGTERM)
    assert next(other for other in first if other != leader)


FAILS_ONCE = """
            if not hasattr(worker, "failed"):
                worker.failed = True
                raise OSError("the database is away")
"""


@pytest.mark.parametrize("server", [("sync", FAILS_ONCE)], indirect=True)
def test_a_worker_of_gunicorn_of_which_a_step_failed_campaigns_again(server: subprocess.Popen[str]) -> None:
    """Each worker fails in its first step: with workers that stop campaigning, nobody would clean up."""
    assert next(leaders(server))


TAKES_LONG = """
            print("a step begins", flush=True)
            __import__("time").sleep(4)
"""


@pytest.mark.parametrize("server", [("gevent", TAKES_LONG)], indirect=True)
def test_a_gevent_worker_of_gunicorn_ends_amid_a_step(server: subprocess.Popen[str]) -> None:
    """The step lets other greenlets run, and the one that ends the worker waits for it."""
    steps = leaders(server)
    leader = next(steps)
    assert server.stdout is not None
    for line in server.stdout:
        if line == "a step begins\n":
            break
    os.kill(leader, signal.SIGTERM)
    assert servers.eventually(lambda: not Path(f"/proc/{leader}").exists(), 60), "it waits for ever"
    assert next(other for other in steps if other != leader)


def leaders(server: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the number of the worker that leads, again and again."""
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.fullmatch(r"worker (\d+) cleans up\n", line):
            yield int(found[1])
