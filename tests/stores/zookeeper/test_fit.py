"""A kazoo whose inside is another: nothing of it is overridden, and requests and replies are the same."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

from recipes.stores.zookeeper.kazoo_client_connection import LeanClient, LeanConnection, PlainClient
from recipes.stores.zookeeper.kazoo_client_fit import KNOWN, fits
from tests.stores.zookeeper.another_kazoo import another_kazoo  # noqa: F401 - a fixture
from tests.stores.zookeeper.conftest import Connections, Driver
from tests.stores.zookeeper.fake_server import FakeZooKeeper
from tests.stores.zookeeper.test_life import (  # noqa: F401 - here with another kazoo
    test_a_busy_connection_is_left_for_its_silence_while_there_is_time_for_another,
    test_a_refused_connection_fails_at_once,
    test_close_ends_the_session_on_the_server,
    test_close_with_a_silent_server,
    test_expiry_is_told_once_and_nothing_is_resumed,
)
from tests.stores.zookeeper.test_requests import (  # noqa: F401 - here with another kazoo
    test_a_batch_answers_each_part,
    test_a_batch_is_sent_before_the_first_answer,
    test_a_closed_connection_answers_session_expired,
    test_a_cut_disturbs_every_watch_and_the_session_goes_on,
    test_a_listing_is_told_of_its_first_change_alone,
    test_a_listing_of_what_is_not_there_is_told_when_it_comes,
    test_a_multi_is_done_whole_or_not_at_all,
    test_a_reconnect_says_what_the_client_has_seen,
    test_a_request_in_flight_is_lost_with_its_connection,
    test_a_watch_is_told_once,
    test_an_event_is_there_before_the_answer_to_a_later_request,
    test_listings_again_and_again_are_one_watch_each,
    test_no_data_is_not_empty_data,
    test_requests_and_replies,
    test_the_errors_that_protocols_handle,
    test_threads_that_ask_at_once_get_their_own_answers,
    test_what_ends_all_ends_a_multi_whichever_part_says_it,
    test_what_nobody_waits_for_is_not_sent_later,
)

pytestmark = pytest.mark.usefixtures("another_kazoo")


@pytest.fixture
def connection(connections: Connections, server: FakeZooKeeper) -> Driver:
    return connections.connected(server.hosts)


def test_kazoos_own_client_is_used_and_one_warning_says_so(
    connections: Connections, server: FakeZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        client = connections.connected(server.hosts).session._client
        assert type(client) is PlainClient
        assert type(client._connection) is ConnectionHandler
    (said,) = [line for line in caplog.messages if "differs" in line]
    assert "(ConnectionHandler._submit)" in said


def test_the_installed_kazoo_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.undo()
    fits.cache_clear()
    assert fits()
    assert not caplog.messages


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, known in KNOWN.items() for name in known])
def test_a_private_method_that_is_missing_or_another_is_noticed(
    kind: type[Any], name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.undo()
    caplog.set_level(logging.WARNING)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, lambda self, and_more: None)
        fits.cache_clear()
        assert not fits()
        if name in vars(kind) and name != "__init__":
            patch.delattr(kind, name)
            fits.cache_clear()
            assert not fits()
    assert f"({kind.__name__}.{name})" in caplog.messages[0]


def test_what_is_overridden_is_known() -> None:
    for ours, kazoos in ((LeanConnection, ConnectionHandler), (LeanClient, KazooClient)):
        overridden = {name for name in vars(ours) if name in vars(kazoos) and not name.startswith("__")}
        assert overridden <= set(KNOWN[kazoos])
