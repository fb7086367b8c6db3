"""Which stores a log is about: clients may name one cluster by different members of it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["first_names"]

OTHER_NAMES = {"zookeepers": "zookeeper", "etcds": "etcd", "rediss": "redis", "mariadb": "mysql"}
PLACES = ("sentinel", "cluster")
"""What a scheme ends in that says of which kind the servers are; other ends say how they are spoken to."""


def first_names(urls: Iterable[str]) -> dict[str, str]:
    """Return for each URL the first one that names the same store.

    Two do if they have the same root, and a server in common, or each one with a third.
    """
    clusters: list[tuple[list[str], set[str]]] = []
    for url in dict.fromkeys(urls):
        names, servers = [url], _servers(url)
        for cluster in [cluster for cluster in clusters if cluster[1] & servers]:
            clusters.remove(cluster)
            names, servers = cluster[0] + names, cluster[1] | servers
        clusters.append((names, servers))
    return {url: names[0] for names, _ in clusters for url in names}


def _servers(url: str) -> set[str]:
    """Return the URL once for each server, with it alone; TLS, a driver or gRPC make no other store of it."""
    scheme, _, rest = url.partition("://")
    hosts, _, root = rest.partition("/")
    store, _, kind = scheme.partition("+")
    store = OTHER_NAMES.get(store, store) + (f"+{kind}" if kind in PLACES else "")
    return {f"{store}://{host}/{root}" for host in hosts.split(",")}
