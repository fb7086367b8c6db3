"""What is measured; each scenario takes a stage and a plan, and returns tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bench.scenarios.alone import alone
from bench.scenarios.churn import churn
from bench.scenarios.commands import commands
from bench.scenarios.counting import counting
from bench.scenarios.footprint import footprint
from bench.scenarios.handover import handover
from bench.scenarios.idle import idle
from bench.scenarios.importing import importing
from bench.scenarios.inprocess import inprocess
from bench.scenarios.joining import joining
from bench.scenarios.parts import parts
from bench.scenarios.readwrite import readwrite
from bench.scenarios.redis import redis
from bench.scenarios.sql import sql
from bench.scenarios.waiters import waiters
from bench.scenarios.wire import wire
from bench.stage import Stage
from bench.tables import Plan, Table

__all__ = ["SCENARIOS"]

SCENARIOS: Mapping[str, Callable[[Stage, Plan], Iterable[Table]]] = {
    "importing": importing,
    "commands": commands,
    "alone": alone,
    "footprint": footprint,
    "idle": idle,
    "joining": joining,
    "waiters": waiters,
    "inprocess": inprocess,
    "wire": wire,
    "readwrite": readwrite,
    "handover": handover,
    "churn": churn,
    "counting": counting,
    "parts": parts,
    "redis": redis,
    "sql": sql,
}
