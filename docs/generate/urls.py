"""What ``connect`` takes: the schemes, their ports, and which options each knows."""

from __future__ import annotations

from urllib.parse import urlsplit

from docs.generate.tables import code, table
from recipes.stores import tls
from recipes.stores.registry import SCHEMES, factory_of
from recipes.stores.urls import encrypts

__all__ = ["urls"]

SAMPLES = {
    "zookeeper": "zookeeper://zk1,zk2/app",
    "zookeepers": "zookeepers://zk1,zk2/app",
    "etcd": "etcd://etcd1,etcd2/app",
    "etcds": "etcds://etcd1,etcd2/app",
    "etcd+grpc": "etcd+grpc://etcd1,etcd2/app",
    "etcds+grpc": "etcds+grpc://etcd1,etcd2/app",
    "redis": "redis://redis1/0/app",
    "rediss": "rediss://redis1/0/app",
    "redis+sentinel": "redis+sentinel://s1,s2,s3/mymaster/0/app",
    "rediss+sentinel": "rediss+sentinel://s1,s2,s3/mymaster/0/app",
    "redis+cluster": "redis+cluster://n1,n2,n3/app",
    "rediss+cluster": "rediss+cluster://n1,n2,n3/app",
    "postgresql": "postgresql://db1/shop/app",
    "postgresql+psycopg": "postgresql+psycopg://db1,db2/shop/app",
    "postgresql+asyncpg": "postgresql+asyncpg://db1/shop/app",
    "mysql": "mysql://db1/shop/app",
    "mysql+pymysql": "mysql+pymysql://db1/shop/app",
    "mysql+asyncmy": "mysql+asyncmy://db1/shop/app",
    "mariadb": "mariadb://db1/shop/app",
    "mariadb+pymysql": "mariadb+pymysql://db1/shop/app",
    "mariadb+asyncmy": "mariadb+asyncmy://db1/shop/app",
    "redlock": "redlock://redis1,redis2,redis3/0/app",
    "memcached": "memcached://cache1/app",
    "sqlite": "sqlite:///var/lib/app/locks.db",
    "memory": "memory://name",
}


def urls() -> str:
    """Return the table; schemes with the same options share a row."""
    found: dict[str, list[str]] = {}
    for scheme in SCHEMES:
        given = (
            {"replicas": 1} if scheme.startswith(("redis+", "rediss+")) else {}
        )  # which has to be said there
        _, options = factory_of(scheme)(urlsplit(SAMPLES[scheme]), given)
        if not encrypts(scheme) and "create_tables" not in options:  # a database's scheme does not say it
            options -= tls.NAMES  # refused there: nothing is encrypted
        named = code(sorted(options - tls.NAMES), "none")
        if options >= tls.NAMES:
            named += ", and those of [TLS](../operating/production.md#tls)"
        found.setdefault(named, []).append(f"`{SAMPLES[scheme]}`")
    rows = [("<br>".join(samples), options) for options, samples in found.items()]
    return table(("URL", "options besides the common ones"), rows)
