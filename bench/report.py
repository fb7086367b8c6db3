"""What a run found, written down: Markdown for people, JSON for programs, pictures."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.bars import judged
from bench.kinds import KINDS, package_version
from bench.tables import Table
from tests.revision import revision

__all__ = ["conditions", "kept", "load", "write"]


def conditions() -> dict[str, Any]:
    """Return what the machine is and does."""
    processor = re.search(r"model name\s*: (.*)", _text("/proc/cpuinfo"))
    packages = sorted({kind.package for kind in KINDS.values() if kind.package} | {"etcd3gw", "kazoo"})
    return {
        "commit": revision("recipes", "bench"),
        "processor": processor[1] if processor else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) or "not installed" for name in packages},
        "load before": load(),
    }


def kept(folder: Path, run: dict[str, Any]) -> dict[str, Table]:
    """Return the tables that are kept there, none if none are, and note in ``run`` of which runs they are."""
    page = folder / "results.json"
    if not page.exists():
        return {}
    found = json.loads(page.read_text())
    earlier = found["run"]
    run["servers"] = earlier["servers"]
    of = {name: earlier[name] for name in ("commit", "rounds", "load before")}
    run["other tables"] = "; ".join(map(_told, filter(None, (of, earlier.get("other tables")))))
    return {name: Table.from_json(name, one) for name, one in found["tables"].items()}


def load() -> str:
    """Return the load averages of the machine."""
    return " ".join(f"{one:.2f}" for one in os.getloadavg())


def write(
    folder: Path, tables: Mapping[str, Table], run: Mapping[str, Any], missing: Mapping[str, str]
) -> Path:
    """Write ``results.json`` and ``results.md``; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"run": run, "missing": missing, "tables": {name: one.as_json() for name, one in tables.items()}}
    (folder / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    page = folder / "results.md"
    page.write_text(markdown(tables, run, missing))
    return page


def markdown(tables: Mapping[str, Table], run: Mapping[str, Any], missing: Mapping[str, str]) -> str:
    """Return the page."""
    lines = ["# Measured in one run", ""]
    lines += [f"- {name}: {_told(value)}" for name, value in run.items()]
    lines += [f"- **NOT MEASURED: {KINDS[name].label}**: {reason}" for name, reason in missing.items()]
    lines += ["", "## Bars", "", "| | bar | stretch | found | floor | |", "|---|---:|---:|---:|---:|---|"]
    lines += [one.markdown() for one in judged(tables)]
    lines += ["", "## Figures", ""]
    return "\n".join([*lines, *(table.markdown() for table in tables.values())]).rstrip() + "\n"


def _told(value: Any) -> str:
    return (
        ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
