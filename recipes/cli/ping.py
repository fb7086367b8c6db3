"""``recipes ping``: whether the store is there, how fast it answers, and what it promises."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

import recipes
from recipes.cli import codes
from recipes.cli.options import Count, connected, seconds_option, store_option, without_secret

__all__ = ["LOCK", "ping_command"]

T = TypeVar("T")
LOCK = "recipes ping"
"""Held shared where the store can: as many may ping at once as like."""
EXAMPLES = """
\b
Examples:
  recipes ping --store etcd://10.0.0.1:2379/app
  recipes ping --json | jq .read_s.median
  until recipes ping --request-timeout 1 2>/dev/null; do sleep 1; done

Exit codes: 0 it answers, 122 it does not, 2 wrong arguments.
"""


@click.command("ping", epilog=EXAMPLES)
@store_option
@click.option("--count", type=Count(), default=10, show_default=True, help="Reads to measure.")
@seconds_option("--ttl", "session_timeout", least=2, default=15.0, help="The session to ask for.")
@seconds_option("--request-timeout", "request_timeout", least=0.05, default=5.0, help="For each request.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; times in seconds.")
def ping_command(*, store: str, count: int, ttl: float, request_timeout: float, as_json: bool) -> int:
    """Start a session, hold a lock, read linearizably, give it back; and say what each took.

    The lock is called "recipes ping", and held shared where the store allows that. Says what the store
    promises, too.
    """
    try:
        found = _measured(store, count, ttl, request_timeout)
    except recipes.RecipesError as error:
        if as_json:
            click.echo(json.dumps({"store": without_secret(store), "answers": False, "reason": str(error)}))
        click.echo(f"recipes ping: {error}", err=True)
        return codes.UNREACHABLE
    click.echo(json.dumps(found) if as_json else "\n".join(_lines(found)))
    return codes.OK


def _measured(store: str, count: int, ttl: float, request_timeout: float) -> dict[str, Any]:
    with connected(store, session_timeout=ttl, request_timeout=request_timeout) as client:
        session = client.session
        lock = client.rwlock(LOCK).reader if client.guarantees.shared else client.lock(LOCK)
        grant, acquire_s = _timed(lambda: lock.acquire(timeout=request_timeout))
        reads = [_timed(grant.verify)[1] for _ in range(count)]
        _, release_s = _timed(grant.release)
        return {
            "store": without_secret(store),
            "answers": True,
            "session": session.id,
            "session_timeout_s": session.timeout,
            "acquire_s": acquire_s,
            "read_s": {
                "count": count,
                "median": statistics.median(reads),
                "least": min(reads),
                "most": max(reads),
            },
            "release_s": release_s,
            "guarantees": dataclasses.asdict(client.guarantees),
        }


def _timed(ask: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    answer = ask()
    return answer, time.perf_counter() - began


def _lines(found: dict[str, Any]) -> list[str]:
    read, given = found["read_s"], found["guarantees"]
    promises = [word for word in ("linearizable", "fencing", "durable") if given[word]]
    return [
        f"{found['store']} answers",
        f"  session    {found['session']}, {found['session_timeout_s']:g} s: {given['timeout']}",
        f"  acquire    {_ms(found['acquire_s'])}",
        f"  read       {_ms(read['median'])}, the median of {read['count']}, at most {_ms(read['most'])}",
        f"  release    {_ms(found['release_s'])}",
        f"  promises   {', '.join(promises)}; for the processes of one {given['scope']}",
        f"  survives   {given['survives']}",
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
