"""Make small changes that nobody chose, and say which of them no test notices: ``nox -s mutation``.

A seed samples all changes that can be made. For each, the module's own tests are run first, then those
of its part, the contract in memory, and schedules of the simulation, up to the first that notices.
The results are kept, and a run of the same commit goes on from them. ``--survivors`` asks again for those
that were not noticed then, of any commit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutation import judging
from tests.mutation.choosing import modules, questions
from tests.mutation.equivalent import LIST, Change, judged, missing
from tests.mutation.making import Place, changed, places
from tests.revision import revision

__all__ = ["Result", "main"]

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build/mutation.json"
COUNT = 1_500
SURVIVES, EQUIVALENT = "nothing", "judged equivalent"


@dataclass(slots=True)
class Result:
    """What became of one change: ``by`` is what noticed it."""

    place: Place
    change: Change
    by: str
    seconds: float

    def line(self) -> str:
        """Return it in one line; in several if nothing noticed it."""
        place = self.place
        words = f"{place.path}:{place.line} {place.operator}: {self.by}  ({self.seconds:.1f} s)"
        return f"{words}\n{self.change.shown()}" if self.by == SURVIVES else words


def main(argv: list[str] | None = None) -> int:
    """Run what the command line says; 1 if a change survives, or the list of judgements is wrong."""
    options = _options(argv)
    if wrong := missing(judged(), ROOT):
        print("\n".join([f"{LIST.relative_to(ROOT)}:", *wrong]))
        return 1
    began, of = time.monotonic(), revision("recipes", "tests")
    kept = _read(options.out)
    done = kept.get(of, {})
    chosen = _sampled(options)
    if options.survivors:
        past = (one for results in kept.values() for one in results.values() if one.by == SURVIVES)
        chosen = _again([one.change for one in past], options.only)
        done = {place: one for place, one in done.items() if place not in chosen}
    wanted = [place for place in chosen if place not in done]
    for result in _run(wanted, options.jobs, quick=options.quick):
        done[result.place] = result
        print(result.line(), flush=True)
        _keep(options.out, kept | {of: done})
    results = [done[place] for place in chosen]
    print("\n".join(_summary(results)))
    print(f"{time.monotonic() - began:.0f} s; {sum(one.seconds for one in results):.0f} s of processors")
    return int(any(one.by == SURVIVES for one in results))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s mutation --", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="how many changes are tried")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--only", default="", metavar="PATH", help="modules with these words in their path")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="ask the tests of the module alone")
    parser.add_argument("--out", type=Path, default=KEPT, help="where the results are kept")
    parser.add_argument(
        "--survivors", action="store_true", help="ask again about those that were not noticed"
    )
    return parser.parse_args(argv)


def _sampled(options: argparse.Namespace) -> list[Place]:
    everything = [place for path in modules(ROOT, options.only) for place in places(path, _source(path))]
    random.Random(options.seed).shuffle(everything)  # and so a larger count goes on where a smaller one ended
    return everything[: options.count]


def _again(changes: list[Change], only: str) -> list[Place]:
    """Return where these changes can be made today."""
    paths = {one.path for one in changes if only in one.path}
    found = {}
    for path in sorted(paths):
        lines = {line for one in changes for line in one.was.splitlines()}
        text = _source(path)
        here = [number for number, line in enumerate(text.splitlines(), 1) if line.strip() in lines]
        near = [place for place in places(path, text) if place.line in here]
        found |= {place: changed(place, text)[1] for place in near}
    return [place for place, change in found.items() if change in changes]


def _run(wanted: list[Place], jobs: int, *, quick: bool) -> Iterator[Result]:
    """Try these, a few beside each other, each in a copy of the tree; in the order in which they end."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=fork, initializer=_start) as pool:
        for done in as_completed([pool.submit(_judge, place, quick=quick) for place in wanted]):
            yield done.result()


_copies: list[judging.Copy] = []


def _start() -> None:
    judging.warm()
    _copies.append(judging.Copy(ROOT))
    multiprocessing.util.Finalize(None, _copies[0].close, exitpriority=10)


def _judge(place: Place, *, quick: bool) -> Result:
    code, change = changed(place, (_copies[0].at / place.path).read_text(encoding="utf-8"))
    if change in judged():
        return Result(place, change, EQUIVALENT, 0.0)
    verdict = _copies[0].judge(place.path, code, questions(place.path, ROOT, quick=quick))
    return Result(place, change, verdict.by or SURVIVES, verdict.seconds)


def _source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _summary(results: list[Result]) -> Iterator[str]:
    """Say what survived, and by part how many were tried, noticed and judged."""
    yield from (one.line() for one in results if one.by == SURVIVES)
    for part in sorted({_part(one) for one in results}):
        of = [one for one in results if _part(one) == part]
        fates = Counter(one.by if one.by in (SURVIVES, EQUIVALENT) else "killed" for one in of)
        yield (
            f"{part}: {len(of)} mutants, {fates['killed']} killed, {fates[EQUIVALENT]} equivalent, "
            f"{fates[SURVIVES]} survive"
        )
    by = Counter(one.by.partition("::")[0] for one in results if one.by not in (SURVIVES, EQUIVALENT))
    yield "killed by: " + ", ".join(f"{words} {count}" for words, count in by.most_common(20))


def _part(one: Result) -> str:
    return one.place.path.rpartition("/")[0]


def _read(path: Path) -> dict[str, dict[Place, Result]]:
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {of: {one.place: one for one in map(_result, results)} for of, results in kept.items()}


def _result(kept: dict[str, Any]) -> Result:
    return Result(**(kept | {"place": Place(**kept["place"]), "change": Change(**kept["change"])}))


def _keep(path: Path, results: dict[str, dict[Place, Result]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {of: [asdict(one) for one in found.values()] for of, found in results.items()}
    path.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
