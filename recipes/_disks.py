"""Where a file is: whether processes can share and lock it there, and what they keep beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["abroad", "file_system", "mounted_by_itself"]

ABROAD = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fakeowner", "fuse", "gfs2", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "panfs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
    "vmhgfs", "wekafs",
}  # fmt: skip
"""As the kernel names them: OrangeFS is ``pvfs2``, and what Docker Desktop mounts of its host ``fakeowner``.
Not ``fuseblk``, which is a local disk; ``fuse`` without a type may be anything, also a bucket of S3.
"""

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")  # how the kernel writes spaces and the like


def abroad(folder: Path) -> str | None:
    """Return why locks cannot be relied on in this directory; None: nothing is known against it."""
    kind = file_system(folder)
    if kind in ABROAD or kind.startswith("fuse."):
        return f"{folder} is on {kind}, where locks and shared memory cannot be relied on"
    return None


def mounted_by_itself(file: Path, keeper: str) -> str | None:
    """Return why others do not share what is kept beside this file, and what to do; None: they do.

    Args:
        file: The file.
        keeper: Whose files are beside it.
    """
    if all(point != os.path.realpath(file) for point, _ in _mounts()):
        return None
    return f"{file} is mounted by itself, without what {keeper} keeps beside it; mount its directory instead"


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds ``folder``; empty if it cannot be known."""
    real = os.path.realpath(folder)
    found = [
        (len(point), number, kind)
        for number, (point, kind) in enumerate(_mounts())
        if real == point or real.startswith(point.rstrip("/") + "/")
    ]
    return max(found, default=(0, 0, ""))[2]


def _mounts() -> Iterator[tuple[str, str]]:
    """Yield where each file system is mounted, and its type; later ones cover earlier ones."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().rstrip(b"\n").split(b"\n")
    except OSError:  # not Linux
        return
    for line in lines:
        before, _, behind = line.partition(b" - ")
        point = _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), before.split(b" ")[4])
        yield os.fsdecode(point), os.fsdecode(behind.split(b" ")[0])
