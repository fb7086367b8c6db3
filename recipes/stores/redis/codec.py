"""What a server says of itself (``INFO``), and what of that an operator should know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["concerns", "evicts", "facts"]

OLDEST = 6
"""The first major version whose servers notify of keys that other programs write."""


def facts(info: bytes) -> dict[str, str]:
    """Return what the reply to ``INFO`` says, by name."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value for name, mark, value in lines if mark}


def evicts(said: Mapping[str, str]) -> bool:
    """Whether a server that is short of memory drops keys, of locks that are held too."""
    return said.get("maxmemory_policy", "noeviction") != "noeviction"


def concerns(said: Mapping[str, str], replicas: int) -> Iterator[str]:
    """Yield what makes a server less safe than its label says, one sentence each.

    Args:
        said: See `facts`.
        replicas: How many have to acknowledge a renewal, and a grant.
    """
    there = int(said.get("connected_slaves", "0"))
    if there > replicas:
        yield (
            f"it has {there} replicas, and replicas= says {replicas}: a failover to one that lacks the last"
            f" renewals lets a second holder in; connect with replicas={there} if it may take over"
        )
    if evicts(said):
        yield (
            f"maxmemory-policy is {said['maxmemory_policy']}: a server that is short of memory drops locks"
            " that are held, and a second holder gets in; set it to noeviction"
        )
    version = said.get("redis_version", "")
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < OLDEST:
        yield (
            f"the server is Redis {version}, which does not notify of keys that other programs write: waiting"
            f" for a lock that one of them holds fails; Redis {OLDEST} and later do"
        )
