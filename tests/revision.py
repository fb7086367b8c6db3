"""Which code it is that something was found out about."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["revision"]

ROOT = Path(__file__).parents[1]


def revision(*folders: str, root: Path = ROOT) -> str:
    """Return the last commit that changed something in these folders, with a + if they were changed since.

    So runs of several commits that differ in other things count as runs of one.
    """
    last, changed = (
        subprocess.run(["git", *words, "--", *folders], cwd=root, capture_output=True, text=True, check=False)
        for words in (("log", "-1", "--format=%h"), ("status", "--porcelain"))
    )
    return (last.stdout.strip() or "unknown") + ("+" if changed.stdout else "")
