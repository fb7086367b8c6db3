"""The tables as pictures (SVG): bars of p50 with p90 behind, and lines over the number of waiters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.kinds import KINDS
from bench.tables import Row, Table

__all__ = ["draw"]

OURS, PEER, FLOOR, BEHIND = "#1f6fb2", "#9a9a9a", "#d8c27a", "#dddddd"
STORES = {
    "zookeeper": "ZooKeeper",
    "etcd": "etcd",
    "redis": "Redis",
    "redis-five": "five Redis",
    "memcached": "Memcached",
    "postgres": "PostgreSQL",
    "mariadb": "MariaDB",
    "folder": "a file",
}
"""The panels of a picture, in order."""


def draw(tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Draw what there is; returns the files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl  # noqa: PLC0415 - only pictures need it
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "bench"  # the same figures make the same file
    drawn = []
    for name, table in tables.items():
        figure = _picture(plt, table)
        if figure is not None:
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
            plt.close(figure)
            drawn.append(path)
    return drawn


def _picture(plt: Any, table: Table) -> Any:
    if table.name == "waiters":
        return _lines(plt, table)
    if table.name == "alone" or table.name.startswith("handover"):
        return _bars(plt, table, "p50 us", "p90 us", "microseconds (dark: p50, light: p90)")
    if table.name == "churn":
        return _bars(plt, table, "mean us a grant", None, "microseconds a grant (mean)")
    if table.name.startswith("readwrite"):
        return _bars(plt, table, "operations/s", None, "operations a second (more is better)")
    return None


def _bars(plt: Any, table: Table, front: str, behind: str | None, words: str) -> Any:
    """Draw one bar a row, a panel a store, the scale cut where a peer is far off."""
    panels = [(store, rows) for store in STORES if (rows := _rows(table, store, front))]
    if not panels:
        return None
    height = sum(len(rows) for _, rows in panels) * 0.3 + len(panels) * 0.4 + 0.6
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(8, height),
        squeeze=False,
        height_ratios=[len(rows) for _, rows in panels],
        layout="constrained",
    )
    for (store, rows), (axis,) in zip(panels, axes, strict=True):
        labels = [KINDS[row.who].label.replace("`", "") for row in rows]
        longest = max(row.figures[behind or front] for row in rows)
        edge = min(4 * max(row.figures[front] for row in rows if KINDS[row.who].ours), longest)
        if behind is not None:
            axis.barh(labels, [min(row.figures[behind], edge) for row in rows], color=BEHIND)
        axis.barh(
            labels, [min(row.figures[front], edge) for row in rows], color=[_colour(row) for row in rows]
        )
        for number, row in enumerate(rows):
            axis.text(
                min(row.figures[front], edge), number, f" {row.figures[front]:,}", va="center", fontsize=8
            )
        axis.set_xlim(0, edge * 1.12)
        axis.invert_yaxis()
        axis.set_ylabel(STORES[store])
    axes[-1][0].set_xlabel(words)
    figure.suptitle(table.title, fontsize=10)
    return figure


def _rows(table: Table, store: str, figure: str) -> Sequence[Row]:
    return [row for row in table.rows if KINDS[row.who].store == store and row.figures.get(figure)]


def _colour(row: Row) -> str:
    kind = KINDS[row.who]
    return OURS if kind.ours else FLOOR if kind.floor else PEER


def _lines(plt: Any, table: Table) -> Any:
    figure, axis = plt.subplots(figsize=(8, 4))
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in table.rows:
        label, _, size = row.who.rpartition("-")
        if row.figures.get("p50 us"):
            lines.setdefault(label, []).append((int(size), row.figures["p50 us"]))
    for label, points in lines.items():
        axis.plot(*zip(*sorted(points), strict=True), marker="o", label=label)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("waiters")
    axis.set_ylabel("microseconds a hand-over (p50)")
    axis.legend(fontsize=8)
    figure.suptitle(table.title, fontsize=10)
    return figure
