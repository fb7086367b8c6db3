"""The bars of the project: which quotient of which two figures may be how large."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from bench.figures import ratio
from bench.tables import Table

__all__ = ["BARS", "Bar", "Judged", "judged"]

Figure = tuple[str, str, str]  # table, who, figure
P50, P90, MEAN = "p50 us", "p90 us", "mean us a grant"


@dataclass(frozen=True)
class Bar:
    """A promise about a figure, or (with ``over``) about the quotient of two.

    Attributes:
        words: What is compared with what.
        figure: What is measured.
        over: What that is divided by; None: nothing.
        bar: What has to be reached.
        stretch: What would be better still; None: nothing.
        least: The figure has to be at least the bar, not at most.
        floor: Who shows what could be reached at best, in the same table.
    """

    words: str
    figure: Figure
    over: Figure | None
    bar: float
    stretch: float | None = None
    least: bool = False
    floor: str | None = None


@dataclass(frozen=True)
class Judged:
    """A bar, and what was measured; None where that was not."""

    bar: Bar
    found: float | None
    floor: float | None = None

    @property
    def verdict(self) -> str:
        """Return one of: stretch (met as well), met, missed, not measured."""
        if self.found is None:
            return "not measured"
        reaches = operator.ge if self.bar.least else operator.le
        if self.bar.stretch is not None and reaches(self.found, self.bar.stretch):
            return "stretch"
        return "met" if reaches(self.found, self.bar.bar) else "missed"

    def markdown(self) -> str:
        """Return a line of a table."""
        sign = "≥" if self.bar.least else "≤"
        stretch = "" if self.bar.stretch is None else f"{sign} {self.bar.stretch:g}"
        found = "-" if self.found is None else f"{self.found:.3g}"
        floor = "" if self.floor is None else f"{self.floor:.2g}"
        return (
            f"| {self.bar.words} | {sign} {self.bar.bar:g} | {stretch} | {found} | {floor} | {self.verdict} |"
        )


def judged(tables: Mapping[str, Table]) -> list[Judged]:
    """Return every bar with what was measured."""
    return [_judge(bar, tables) for bar in BARS]


def _judge(bar: Bar, tables: Mapping[str, Table]) -> Judged:
    mine = _find(bar.figure, tables)
    table, _, figure = bar.figure
    floor = None if bar.floor is None else _find((table, bar.floor, figure), tables)
    if bar.over is None:
        return Judged(bar, mine, floor)
    theirs = _find(bar.over, tables)
    return Judged(bar, ratio(mine, theirs), ratio(floor, theirs))


def _find(figure: Figure, tables: Mapping[str, Table]) -> float | None:
    table, who, name = figure
    found: float | None = tables[table].find(who, name) if table in tables else None
    return found


def _pair(
    words: str, table: str, mine: str, theirs: str, figure: str, bar: float, stretch: float | None
) -> Bar:
    floor = next(f"floor-{one}" for one in ("etcd", "grpc", "redis", "zookeeper") if one in mine)
    return Bar(words, (table, mine, figure), (table, theirs, figure), bar, stretch, floor=floor)


def _zookeeper(words: str, table: str, theirs: str, figure: str, bar: float, stretch: float) -> Bar:
    return _pair(f"ZooKeeper, {words}", table, "recipes-zookeeper", theirs, figure, bar, stretch)


def _etcd(words: str, table: str, theirs: str, figure: str, bar: float, stretch: float) -> Bar:
    return _pair(f"etcd, {words}", table, "recipes-etcd", theirs, figure, bar, stretch)


def _grpc(words: str, table: str, theirs: str, figure: str, bar: float) -> Bar:
    return _pair(f"etcd by gRPC, {words}", table, "recipes-grpc", theirs, figure, bar, None)


def _redis(words: str, table: str, mine: str, theirs: str, figure: str, bar: float) -> Bar:
    return _pair(f"Redis, {words}", f"redis-{table}", mine, theirs, figure, bar, None)


def _footprint(store: str, api: str) -> list[Bar]:
    most = 3 if store == "etcd" else 1
    bars = []
    for which, words in (("one", "one lock"), ("apart", "a lock each")):
        who, said = f"{store}-{api}-{which}", f"{store}, 1 000 asyncio waiters, {words}"
        bars.append(Bar(f"{said}: KiB a waiter", ("footprint", who, "KiB a waiter"), None, 8, 4))
        bars.append(Bar(f"{said}: connections", ("footprint", who, "connections"), None, most))
        bars.append(Bar(f"{said}: threads", ("footprint", who, "threads"), None, 4))
    return bars


def _inprocess(who: str, words: str) -> list[Bar]:
    return [
        Bar(
            f"{words}: hand-over, us, p50",
            ("inprocess", who, P50),
            None,
            40,
            floor=f"floor-{who.rpartition('-')[2]}",
        ),
        Bar(
            f"{words}: another client's longest wait, ms",
            ("inprocess", who, "another's longest wait ms"),
            None,
            60,
        ),
    ]


def _idle(store: str) -> Bar:
    words = f"100 idle clients on {store}://: % of a core"
    floor = {"etcd": "floor-etcd", "etcd+grpc": "floor-grpc", "zookeeper": "floor-zookeeper"}.get(store)
    return Bar(words, ("idle", store, "clients, % of a core"), None, 1, floor=floor)


BARS = (
    _zookeeper("uncontended, vs kazoo, p50", "alone", "kazoo", P50, 0.50, 0.40),
    _zookeeper("hand-over at 2, vs kazoo, p50", "handover-2", "kazoo", P50, 0.60, 0.50),
    _zookeeper("hand-over at 2, vs Curator, p50", "handover-2", "curator", P50, 0.75, 0.55),
    _zookeeper("hand-over at 8, vs kazoo, p50", "handover-8", "kazoo", P50, 0.60, 0.45),
    _zookeeper("hand-over at 8, vs Curator, p50", "handover-8", "curator", P50, 0.85, 0.65),
    _zookeeper("hand-over at 32, vs kazoo, p50", "handover-32", "kazoo", P50, 0.60, 0.45),
    _zookeeper("hand-over at 32, vs Curator, p50", "handover-32", "curator", P50, 0.90, 0.65),
    _zookeeper("churn at 10, vs kazoo, mean", "churn", "kazoo", MEAN, 0.65, 0.50),
    _zookeeper("churn at 10, vs Curator, mean", "churn", "curator", MEAN, 1.2, 1.0),
    _etcd("uncontended, vs etcd3gw, p50", "alone", "etcd3gw", P50, 0.33, 0.25),
    _etcd("uncontended, vs Go, p50", "alone", "go", P50, 2.3, 1.6),
    _etcd("hand-over at 2, vs Go, p50", "handover-2", "go", P50, 0.08, 0.03),
    _etcd("hand-over at 2, vs Go, p90", "handover-2", "go", P90, 0.06, 0.025),
    _etcd("hand-over at 8, vs Go, p50", "handover-8", "go", P50, 1.1, 0.75),
    _etcd("hand-over at 8, vs Go, p90", "handover-8", "go", P90, 0.9, 0.75),
    _etcd("hand-over at 32, vs Go, p50", "handover-32", "go", P50, 1.1, 0.75),
    _etcd("hand-over at 32, vs Go, p90", "handover-32", "go", P90, 0.9, 0.75),
    _etcd("churn at 10, vs Go, mean", "churn", "go", MEAN, 0.20, 0.13),
    _grpc("uncontended, vs Go, p50", "alone", "go", P50, 1.25),
    _grpc("uncontended, vs etcd3gw, p50", "alone", "etcd3gw", P50, 0.25),
    _grpc("uncontended, vs Go, the server's CPU", "alone", "go", "server CPU us", 1.15),
    _grpc("hand-over at 2, vs the gateway, p50", "handover-2", "recipes-etcd", P50, 0.6),
    _grpc("hand-over at 8, vs Go, p50", "handover-8", "go", P50, 1.2),
    _grpc("hand-over at 8, vs Go, p90", "handover-8", "go", P90, 1.2),
    _grpc("hand-over at 32, vs Go, p50", "handover-32", "go", P50, 1.3),
    _grpc("hand-over at 32, vs Go, p90", "handover-32", "go", P90, 1.4),
    _grpc("churn at 10, vs Go, mean", "churn", "go", MEAN, 0.3),
    *(_idle(store) for store in ("etcd", "etcd+grpc", "zookeeper", "sqlite")),
    *(
        Bar(
            f"8 readers and 1 writer, operations/s of ours on {store} vs kazoo",
            ("readwrite-0", f"recipes-{store}", "operations/s"),
            ("readwrite-0", "kazoo", "operations/s"),
            1.5,
            2.5,
            least=True,
        )
        for store in ("zookeeper", "etcd")
    ),
    *(
        Bar(
            f"8 processes that add to one counter on ZooKeeper, additions/s vs {words}",
            ("counting", "recipes-zookeeper", "adds/s"),
            ("counting", peer, "adds/s"),
            1.5,
            least=True,
        )
        for peer, words in (("kazoo", "kazoo"), ("kazoo-eager", "an eager kazoo"), ("curator", "Curator"))
    ),
    *(
        Bar(
            f"{store}, hand-over at 1 000 waiters ({api}) vs at 10, p50",
            ("waiters", f"{store}-{api}-1000", P50),
            ("waiters", f"{store}-{api}-10", P50),
            2.5,
            1.5,
        )
        for store in ("zookeeper", "etcd")
        for api in ("threads", "asyncio")
    ),
    *(
        Bar(
            f"{store}, hand-over at 10 000 waiters (asyncio) vs at 10, p50",
            ("waiters", f"{store}-asyncio-10000", P50),
            ("waiters", f"{store}-asyncio-10", P50),
            2,
        )
        for store in ("zookeeper", "etcd")
    ),
    *(
        bar
        for store in ("etcd", "etcd+grpc", "zookeeper", "sqlite")
        for api in ("threads", "asyncio")
        for bar in _inprocess(f"{store}-{api}", f"{store}, 8 waiters of one client ({api})")
    ),
    Bar(
        "etcd, join of a queue of 1 000 vs of 10, p50",
        ("joining", "join-1000", P50),
        ("joining", "join-10", P50),
        3,
    ),
    Bar(
        "etcd, unrelated put beside 4 joiners of 10 000 vs alone, p50",
        ("put-beside", "beside-10000", P50),
        ("put-beside", "alone", P50),
        2,
    ),
    *_footprint("etcd", "asyncio"),
    *_footprint("zookeeper", "asyncio"),
    *(
        Bar(
            f"{store}, asyncio vs blocking, uncontended, p50",
            ("alone", f"recipes-{store}-asyncio", P50),
            ("alone", f"recipes-{store}", P50),
            bar,
            1.0,
        )
        for store, bar in (("etcd", 1.3), ("zookeeper", 1.5))
    ),
    _redis("uncontended, vs redis-py, p50", "alone", "recipes-redis", "redis-py", P50, 1.5),
    _redis(
        "asyncio, uncontended, vs redis-py, p50",
        "alone",
        "recipes-redis-asyncio",
        "redis-py-asyncio",
        P50,
        1.5,
    ),
    *(
        _redis(
            f"hand-over at {count}, vs python-redis-lock, {figure.partition(' ')[0]}",
            f"handover-{count}",
            "recipes-redis",
            "python-redis-lock",
            figure,
            1,
        )
        for count in (2, 8)
        for figure in (P50, P90)
    ),
    Bar(
        "Redis, 8 contenders: the longest wait vs a fair one",
        ("redis-fairness", "recipes-redis", "longest/fair"),
        None,
        3,
    ),
    Bar(
        "Redis, 8 contenders: the poorest's grants vs the richest's",
        ("redis-fairness", "recipes-redis", "poorest/richest"),
        None,
        0.95,
        least=True,
    ),
    Bar(
        "Redis, the server's time of acquire and release: us",
        ("redis-server", "recipes-redis", "us"),
        None,
        25,
    ),
    *(
        Bar(
            f"Redis, hand-over at 1 000 waiters ({api}) vs at 2 processes, p50",
            ("redis-waiters", f"redis-{api}-1000", P50),
            ("redis-handover-2", who, P50),
            2,
        )
        for api, who in (("threads", "recipes-redis"), ("asyncio", "recipes-redis-asyncio"))
    ),
    Bar(
        "Redis, freed after a dead holder's deadline: us, worst",
        ("redis-ends", "crash", "worst us"),
        None,
        5000,
    ),
    Bar(
        "Redis, granted after another program's release: us, p50", ("redis-ends", "stranger", P50), None, 2000
    ),
    Bar(
        "Redlock on five, uncontended, vs two round trips to three of them, p50",
        ("alone", "recipes-redlock", P50),
        ("alone", "floor-redlock", P50),
        1.5,  # three round trips
    ),
    Bar(
        "Memcached, uncontended, vs its two round trips, p50",
        ("alone", "recipes-memcached", P50),
        ("alone", "floor-memcached", P50),
        2,
    ),
    Bar(
        "PostgreSQL, uncontended, vs two functions in PL/pgSQL, p50",
        ("sql-alone", "recipes-postgres", P50),
        ("sql-alone", "floor-postgres", P50),
        1.26,  # 1.2 ms where those take 0.95
    ),
    Bar(
        "PostgreSQL, hand-over at 2 vs acquire and release by two functions, p50",
        ("sql-handover-2", "recipes-postgres", P50),
        ("sql-alone", "floor-postgres", P50),
        3.2,  # 3 ms where those take 0.95
    ),
    Bar("MariaDB, hand-over at 2: us, p50", ("sql-handover-2", "recipes-mariadb", P50), None, 15_000),
    *(
        Bar(
            f"{label}, hand-over at 1 000 waiters (asyncio) vs at 2, p50",
            ("sql-waiters", f"{store}-asyncio-1000", P50),
            ("sql-waiters", f"{store}-asyncio-2", P50),
            2,
        )
        for store, label in (("postgres", "PostgreSQL"), ("mariadb", "MariaDB"))
    ),
    *(
        Bar(f"`recipes {name}` on {store}://: ms", ("commands", f"{store} {name}", "ms"), None, most)
        for store in ("sqlite", "etcd", "etcd+grpc")
        for name, most in (("run --try", 350), ("ls", 250))
    ),
    Bar("import recipes over bare Python: ms", ("importing", "import recipes", "ms"), None, 70),
    Bar(
        "import recipes, vs kazoo.client",
        ("importing", "import recipes", "ms"),
        ("importing", "import kazoo.client", "ms"),
        0.6,
    ),
    Bar("import recipes over bare Python: MiB", ("importing", "import recipes", "MiB"), None, 20),
)
