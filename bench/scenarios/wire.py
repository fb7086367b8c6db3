"""Requests and bytes, counted between the contenders and their server."""

from __future__ import annotations

from bench.kinds import KINDS
from bench.stage import Crew, Stage
from bench.tables import Plan, Table
from integration.harness.wire import Raw
from integration.proxy import Counts, Proxy

__all__ = ["wire"]

COUNTED = ("recipes-zookeeper", "kazoo", "curator", "recipes-etcd", "tooz", "etcd3gw")
ONLY_BYTES = ("go", "aetcd")  # HTTP/2, which the proxy passes and does not read
RENEWALS = ("/v3/lease/keepalive", "/v3/watch")
CYCLES, CONTENDERS, FOR_S, HOLD_S = 50, 8, 1.5, 0.005


def wire(stage: Stage, plan: Plan) -> list[Table]:
    """Count what a grant takes: alone, and among 8 contenders."""
    alone = Table("wire-alone", "Requests and bytes of an acquire and release, nobody else there")
    among = Table(
        "wire-8", f"Requests and bytes of a grant among {CONTENDERS} contenders, joining and release included"
    )
    for crew in stage.crews(*COUNTED, *ONLY_BYTES):
        server = stage.server(crew.kind.store)
        raw = crew.kind.name in ONLY_BYTES
        proxy = Proxy(server.host, server.port, Raw) if raw else Proxy.of(server)
        with proxy:
            beside = Crew(crew.kind, proxy.address, server.pid)
            try:
                _count(beside, proxy, plan, alone, among, raw=raw)
            finally:
                beside.close()
    among.notes.append(
        "Renewals of sessions and pings are not counted as requests. tooz and etcd3gw ask again and again."
    )
    return [alone, among]


def _count(crew: Crew, proxy: Proxy, plan: Plan, alone: Table, among: Table, *, raw: bool) -> None:
    crew.muster(1)
    crew.use(1)
    with proxy.counting() as counts:
        grants = len(crew.cycles(plan.count(CYCLES)).took)
    alone.add(crew.kind.name, **_figures(counts, grants, raw=raw))
    if not KINDS[crew.kind.name].waits or crew.kind.name == "tooz":
        return
    few = plan.processes(CONTENDERS)
    crew.muster(few)
    with proxy.counting() as counts:
        turn = crew.contend(few, plan.seconds(FOR_S), HOLD_S)
    among.add(crew.kind.name, **_figures(counts, sum(map(len, turn.spans)), raw=raw))


def _figures(counts: Counts, grants: int, *, raw: bool) -> dict[str, float | None]:
    asked = sum(number for label, number in counts.requests.items() if label not in RENEWALS)
    return {
        "requests": None if raw else round(asked / grants, 2),
        "bytes up": round(counts.bytes_up / grants),
        "bytes down": round(counts.bytes_down / grants),
    }
