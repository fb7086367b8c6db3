"""How a ``KazooClient`` begins and ends here."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from typing import Any

from kazoo.retry import KazooRetry

from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.kazoo_client_connection import LeanClient, PlainClient
from recipes.stores.zookeeper.kazoo_client_fit import fits
from recipes.stores.zookeeper.kazoo_client_log import KazooLog

__all__ = ["LONGEST_CONNECT_S", "connect_timeout", "make_client", "stop_client"]

log = logging.getLogger("recipes.kazoo")

LONGEST_CONNECT_S = 5.0
SHORTEST_CONNECT_S = 1.0


def connect_timeout(hosts: str, session_timeout_s: float) -> float:
    """Return how long one server may take, so that each gets its chance before the session expires."""
    share_s = session_timeout_s / 2 / (hosts.count(",") + 1)
    return min(LONGEST_CONNECT_S, max(SHORTEST_CONNECT_S, share_s))


def make_client(
    hosts: str, session_timeout_s: float, handler: LeanHandler, logger: KazooLog, options: Mapping[str, Any]
) -> Any:
    """Return a client, not started; ``options`` are for ``KazooClient``, but the rest of this is ours."""
    # kazoo draws an order for each round, and may begin with the server that was just left for its silence.
    order = hosts.split(",")
    random.shuffle(order)
    # kazoo's own policy waits up to an hour between two tries.
    retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.3, sleep_func=handler.sleep_func)
    ours: dict[str, Any] = {
        "hosts": ",".join(order),
        "randomize_hosts": False,
        "timeout": session_timeout_s,
        "client_id": None,  # a session is never taken over
        "read_only": False,  # a server without a quorum cannot say who holds what
        "handler": handler,
        "connection_retry": retry,
        "command_retry": retry.copy(),
        "logger": logger,
    }
    handler.ahead = fits()
    return (LeanClient if handler.ahead else PlainClient)(**{**options, **ours})


def stop_client(client: Any, handler: LeanHandler, grace_s: float) -> None:
    """Say goodbye for at most ``grace_s``, then cut the connection; returns when kazoo's thread has ended.

    kazoo's ``stop`` waits for that thread for ten seconds and more, its ``close`` refuses while it runs.
    """
    timer = threading.Timer(grace_s, handler.abort)
    timer.daemon, timer.name = True, "recipes-kazoo-abort"
    try:
        timer.start()
    except RuntimeError:  # the interpreter is going down, or there are too many threads
        handler.abort()
    try:
        client.stop()
    except Exception:
        log.debug("kazoo did not stop in time", exc_info=True)
    timer.cancel()
    handler.join()  # a name server that does not answer may hold it up
    client.close()
