"""An etcd whose JSON gateway is switched off: what a client of it says, and that gRPC does without."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

import recipes
from integration import servers
from integration.faults.actors import APIS, actor
from integration.harness.finding import find_etcd_35


class WithoutGateway(servers.Etcd):
    """An etcd that serves gRPC alone."""

    def command(self) -> Sequence[str]:
        return [*super().command(), "--enable-grpc-gateway=false"]


@pytest.fixture(scope="module")
def etcd() -> Iterator[servers.Etcd]:
    with WithoutGateway("etcd-3.5", find_etcd_35()) as server:
        yield server


@pytest.mark.parametrize("api", APIS)
def test_who_asks_a_gateway_that_is_switched_off_reads_which_url_does_without(
    etcd: servers.Etcd, prefix: str, api: str
) -> None:
    url = etcd.url(prefix)
    one = actor(api, url, request_timeout=5)
    with contextlib.closing(one), pytest.raises(recipes.StoreUnavailable) as caught:
        one.open()
    assert "etcd+grpc:// asks without it" in str(caught.value)
    with contextlib.closing(actor(api, url.replace("etcd://", "etcd+grpc://"))) as other:
        assert other.acquire("a").verify()
