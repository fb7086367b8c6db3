"""The examples of the documentation beside other locks on Redis, and of those who come from them."""

from __future__ import annotations

import pytest

from integration import servers
from integration.test_docs import python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.measured

SAYS = {
    "after_redis_py.py": "second page is made; held: True under token",
    "beside_redis_py.py": "held by a client of this package: [False]",
    "beside_redlock.py": "either waits for the other",
}


@pytest.mark.parametrize("example", SAYS)
def test_an_example_on_redis(shared_redis: servers.Redis, example: str) -> None:
    text = (ROOT / "docs/examples" / example).read_text()
    if "recipes.connect" in text:  # this server has just been started
        assert text.count("redis://127.0.0.1:6379") == 1
        text = text.replace('"redis://127.0.0.1:6379"', f'"{shared_redis.url()}", restart_grace=0')
    assert SAYS[example] in python(text.replace("6379", str(shared_redis.port)))
