"""What a program's own signal handler raises ends a call on every store, whatever the call waits for."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

import recipes
from integration.chaos.stages import staged
from integration.needing import needed
from recipes._run.clock import boot_time
from tests.alarms import alarm

STORES = ("etcd-3.4", "etcd-grpc", "zookeeper", "redis", "postgres", "mariadb", "memcached", "redlock")
SESSION_S = 8.0


class SoftTimeLimitExceeded(Exception):
    """As Celery raises it in a task."""


def passed(begun: float) -> bool:
    """Whether it has begun long enough ago to wait by now."""
    return boot_time() > begun + 0.3


@pytest.mark.parametrize("store", STORES)
def test_an_alarm_ends_a_call_as_it_is(store: str, prefix: str) -> None:
    with (
        needed(store, lambda: staged(store, session_s=SESSION_S)) as stage,
        contextlib.closing(stage.way()) as way,
    ):
        url = way.url(prefix)
        options = {**stage.options, "session_timeout": SESSION_S}
        with recipes.connect(url, **options) as holder, recipes.connect(url, **options) as client:
            lock = client.lock("taken")
            grant = holder.lock("taken").acquire(timeout=60)  # some grant nothing at first
            client.lock("free").acquire(timeout=60).release()
            for raised in (TimeoutError, SoftTimeLimitExceeded):
                begun = boot_time()
                after = partial(passed, begun)
                with pytest.raises(raised, match="of the handler"), alarm(raised, after):
                    lock.acquire(timeout=120)
                for proxy in way.proxies:
                    proxy.blackhole()
                begun = boot_time()
                after = partial(passed, begun)
                with pytest.raises(raised, match="of the handler"), alarm(raised, after):
                    client.lock("free").acquire(timeout=120)
                way.heal()
                client.lock("free").acquire(timeout=60).release()
            grant.release()
            lock.acquire(timeout=60).release()
