"""What is heard from kazoo, and what is passed on."""

from __future__ import annotations

import logging

import pytest
from kazoo.loggingsupport import BLATHER
from kazoo.protocol.serialization import Auth

from recipes.stores.zookeeper.kazoo_client_log import KazooLog

HEARD: list[tuple[int, int]] = []


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> KazooLog:
    caplog.set_level(1, "recipes.kazoo")
    HEARD.clear()
    return KazooLog(lambda *granted: HEARD.append(granted))


def test_a_granted_session_is_heard_and_clears_troubles(
    log: KazooLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.info("Connecting to %s(%s):%s, use_ssl: %r", "zk1", "10.0.0.1", 2181, False)
    log.warning("Connection dropped: %s", "socket connection error: Connection refused")
    log.warning("Cannot resolve %s: %s", "zk2", "not known")
    both = "zk1:2181,zk2:2181"
    assert log.trouble(both) == "zk1:2181: Connection refused; zk2: cannot be resolved (not known)"
    log.log(BLATHER, "Session created, session_id: %r session_passwd: %s", 7, b"secret", 4000, 1, 2)
    log.log(BLATHER, "Read response %s", "secret")
    assert HEARD == [(7, 4000)]
    assert log.trouble(both) == ""
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("host", "store"), [("zk1", "zk1:2181"), ("::1", "[::1]:2181")])
def test_the_only_server_is_named_once(log: KazooLog, host: str, store: str) -> None:
    log.info("Connecting to %s(%s):%s, use_ssl: %r", host, "10.0.0.1", 2181, False)
    log.warning("Connection dropped: %s", "socket connection error: Connection refused")
    assert log.trouble(store) == "Connection refused"
    said = f"no answer from {store}: Connection refused; check that it runs and can be reached"
    assert str(log.failure(store)) == said
    assert log.failure(store, "nothing within 5 s").detail == "nothing within 5 s (Connection refused)"
    log.warning("Cannot resolve %s: %s", host, "not known")
    assert log.trouble(store) == "Connection refused; cannot be resolved (not known)"


def test_requests_are_named_and_not_shown(log: KazooLog, caplog: pytest.LogCaptureFixture) -> None:
    log.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", "user:secret"))
    log.error("odd %s", Auth(0, "digest", "user:secret"))
    warn = log.warn  # as kazoo says it
    warn("Received unknown event %r", 9)
    try:
        int("x")
    except ValueError:
        log.exception("Exception raised during deserialization of request: %s", Auth(0, "d", "secret"))
    assert "secret" not in caplog.text
    assert "request: Auth" in caplog.text
    assert "ValueError" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING, logging.ERROR]
