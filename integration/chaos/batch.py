"""A batch of runs on one store, and what came of it as numbers."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.chaos.resources import REGISTERS
from integration.chaos.run import Result, Run
from integration.chaos.stages import staged
from integration.harness.throwaway import memory_directory
from tests.revision import revision

__all__ = ["batch", "commit", "program", "saved"]

BEHIND = 2
EXPIRED_S = 15.0
"""Within how long at most the contenders of killed clients are gone, once servers are left alone: a
restart, and a new leader, give a session its whole time again."""


def batch(
    store: str,
    runs: int,
    seed: str,
    *,
    first: int = 0,
    seconds: float = 4.0,
    folder: Path | None = None,
    keep: bool = False,
    theme: str = "",
    lanes: tuple[str, ...] = (),
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Run ``runs`` runs on one store, which is started once; return what came of them."""
    began, revision = time.monotonic(), commit()
    results: list[Result] = []
    waiting: deque[Run] = deque()
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", dir=memory_directory()) as scratch,
        staged(store) as stage,
    ):
        version = stage.version()
        for number in range(first, first + runs):
            run = Run(stage, number, seed, Path(scratch), seconds, theme=theme, lanes=lanes)
            results.append(run.result)
            waiting.append(run)
            try:
                run.go()
            except (
                Exception
            ) as error:  # of the harness, or a client that hangs: what is next would suffer too
                run.result.violations.append(f"the run broke off: {error!r}")
                traceback.print_exc()
                break
            _look_back(waiting, BEHIND, 0.0, folder, keep=keep)
            say(_line(run))
        _look_back(waiting, 0, EXPIRED_S, folder, keep=keep)
    about = {"store": store, "version": version, "commit": revision, "seed": seed, "first": first}
    return {**about, **summed(results), "seconds": round(time.monotonic() - began)}


def _look_back(waiting: deque[Run], leave: int, within_s: float, folder: Path | None, *, keep: bool) -> None:
    """See that nothing is left of runs whose sessions have had their time to end."""
    while len(waiting) > leave:
        run = waiting.popleft()
        if not run.gone(within_s or EXPIRED_S):
            run.leaked()
        if folder is not None and (keep or run.result.violations):
            run.save(folder)
        run.forget()


def _line(run: Run) -> str:
    result = run.result
    judged = result.judged
    lost = {name: judged.get(f"{name}: lost", 0) for name in REGISTERS}
    bad = f"  VIOLATIONS: {result.violations}" if result.violations else ""
    return (
        f"{result.store} {result.seed} {result.theme} x{result.at_once}: {judged.get('grants')} grants, "
        f"lost {lost}, {result.faults}, {run.took_s:.1f} s{bad}"
    )


def summed(results: list[Result]) -> dict[str, Any]:
    """Return the numbers of a batch."""
    faults: Counter[str] = Counter()
    figures: Counter[str] = Counter()
    paused: Counter[str] = Counter()
    for result in results:
        faults.update(result.faults)
        figures.update(result.judged)
        if result.faults.get("pause"):
            paused.update(runs=1, **_losses(result.judged))
            paused["runs in which the unfenced register lost"] += bool(result.judged.get("unfenced: lost"))
    return {
        "runs": len(results),
        "three at once": sum(result.at_once > 1 for result in results),
        "lanes": sorted({result.lanes for result in results}),
        "grants": figures["grants"],
        "fewest grants": min((result.judged.get("grants", 0) for result in results), default=0),
        "violations": [f"{result.seed}: {one}" for result in results for one in result.violations],
        "leaked": sum(result.leaked for result in results),
        "faults": dict(sorted(faults.items())),
        "figures": dict(sorted(figures.items())),
        "pause runs": dict(paused),
        "each": [_short(result) for result in results],
    }


def _short(result: Result) -> dict[str, Any]:
    """Return what there is to say of one run."""
    lost = {name: result.judged.get(f"{name}: lost", 0) for name in REGISTERS}
    grants = result.judged.get("grants", 0)
    return {
        "seed": result.seed,
        "theme": result.theme,
        "grants": grants,
        "lost": lost,
        "faults": result.faults,
    }


def _losses(judged: dict[str, Any]) -> dict[str, int]:
    names = [f"{name}: {what}" for name in REGISTERS for what in ("acknowledged", "lost")]
    return {name: judged.get(name, 0) for name in names}


def program(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return the parser of a program of this folder, whose docstring is its help."""
    return argparse.ArgumentParser(
        prog=f"python -m {name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def commit() -> str:
    """Return the last commit that changed the package."""
    return revision("recipes")


def saved(result: dict[str, Any], path: Path) -> None:
    """Write a batch's numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
