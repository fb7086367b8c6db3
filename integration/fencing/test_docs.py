"""The examples of gates that need PostgreSQL or Redis."""

from __future__ import annotations

import uuid

import pytest

from integration import servers
from integration.fencing.doors import PsycopgDoor, place_on
from integration.test_docs import python
from tests.docs.pages import ROOT, example_on

pytestmark = pytest.mark.measured

SAYS = {
    "fencing_postgres.py": "('all is well',)",
    "fencing_redis.py": "'reports' refused token",
}


@pytest.mark.parametrize("example", [name for name in SAYS if "redis" not in name])
def test_an_example_runs_on_postgresql(example: str, postgres: servers.Postgres) -> None:
    text = example_on(ROOT / "docs/examples" / example, f"memory://{uuid.uuid4().hex}")
    _, _, place = place_on(postgres, PsycopgDoor).partition("://")
    assert SAYS[example] in python(text.replace("app@127.0.0.1:5432/app", place))


@pytest.mark.parametrize("example", [name for name in SAYS if "redis" in name])
def test_an_example_runs_on_redis(example: str, redis_server: servers.Redis) -> None:
    text = example_on(ROOT / "docs/examples" / example, f"memory://{uuid.uuid4().hex}")
    text = text.replace("6379", str(redis_server.port)).replace(
        "Gate(server)", f'Gate(server, prefix="{uuid.uuid4()}")'
    )
    assert SAYS[example] in python(text)
