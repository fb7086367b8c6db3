"""A small disk for the data of one server, which a test fills."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

from integration.harness.process import Server, ServerUnavailable

__all__ = ["fill", "on_small_disk"]

S = TypeVar("S", bound=Server)


@contextlib.contextmanager
def on_small_disk(server: S, size: str) -> Generator[S, None, None]:
    """Start a server for the first time, with its data on a disk of a size such as ``200m``, and yield it."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(server.home)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        server.close()
        raise ServerUnavailable("a small disk needs root, to mount it: mount was refused")
    try:
        yield server.start()
    finally:
        server.kill()
        subprocess.run(["umount", "--lazy", str(server.home)], check=True)
        server.close()


def fill(home: Path) -> Path:
    """Leave not a byte on the disk of a directory; return the file to remove, for there to be room again."""
    file = home / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(b"x" * size)
    return file
