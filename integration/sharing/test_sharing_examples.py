"""The examples of the documentation beside other locks on Redis, and of those who come from them."""

from __future__ import annotations

import pytest

from integration import servers
from integration.test_docs import python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.measured

SAYS = {
    "after_python_redis_lock.py": "the report is made under token",
    "after_redis_py.py": "second page is made; held: True under token",
    "after_redis_py_asyncio.py": "the report is made under token",
    "after_redisson.py": "page 1\npage 2\nthe report is made under token",
    "after_redlock.py": "second page is made under token",
    "before_python_redis_lock.py": "the report is made",
    "before_redlock.py": "first page is made\nsecond page is made",
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
