"""Where the file is, and whether it can be a store there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import SplitResult, unquote

from recipes._disks import abroad, mounted_by_itself
from recipes.errors import StoreRefused

__all__ = ["check", "machine", "no_room", "path_of"]

ELSEWHERE = "put the file on a local disk, or use etcd:// or zookeeper:// for several machines"
HOW = "write sqlite:///path/to/file for /path/to/file, or sqlite://./file for one in the current directory"


def path_of(parts: SplitResult) -> str:
    """Return the absolute path that a URL names.

    Raises:
        ValueError: The URL names a host, or no file.
    """
    if parts.netloc not in ("", "."):
        raise ValueError(f"sqlite:// names no host, and {parts.netloc!r} stands in its place: {HOW}")
    path = unquote(parts.path, errors="surrogateescape")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError(f"sqlite:// names a file, and this URL does not: {HOW}")
    if "\0" in path:
        raise ValueError("the path of a file holds no NUL")
    if path.lstrip("/") == ":memory:":
        raise ValueError("sqlite:// is a file that processes share; for one process use memory://")
    if not parts.netloc and path.count("/") == 1:
        raise ValueError(
            f"sqlite://{parts.path} would be {path}, directly below the root of the file system, and to "
            f"SQLAlchemy it is a file in the current directory; write sqlite://.{parts.path} for the current "
            f"directory, or sqlite:///{parts.path} for {path}"
        )
    return os.path.abspath(  # noqa: PTH100 - no look at the disk
        path.lstrip("/") if parts.netloc else f"/{path.lstrip('/')}"
    )


def check(path: str, label: str) -> None:
    """Refuse a place where no file can be shared and locked.

    Nothing here opens the file: closing it again would drop the locks that SQLite holds on it in
    this process.

    Raises:
        StoreRefused: What is wrong, and what to do.
    """
    file = Path(path)
    try:
        wrong = _wrong_place(file.parent) or _wrong_file(file)
    except OSError as error:  # it names the path
        wrong = str(error)
    if wrong:
        raise StoreRefused(label, wrong)


def _wrong_place(folder: Path) -> str | None:
    if not folder.is_dir():
        return (
            f"the directory {folder} does not exist; make it first, or write sqlite://./path/to/file for a "
            "path below the current directory"
        )
    wrong = abroad(folder)
    if wrong is not None:
        return f"{wrong}; {ELSEWHERE}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the directory {folder} is not writable; SQLite keeps files beside the database"
    return None


def _wrong_file(file: Path) -> str | None:
    try:
        found = file.stat()
    except FileNotFoundError:  # it will be made
        return None
    if not stat.S_ISREG(found.st_mode):
        return f"{file} is no regular file"
    # Under each of its names a file has a log and locks of its own.
    if found.st_nlink > 1:
        return f"{file} has other names (hard links), and cannot be shared under two; remove the others"
    wrong = mounted_by_itself(file, "SQLite")
    if wrong is not None:
        return wrong
    if not os.access(file, os.R_OK | os.W_OK):
        return f"{file} is not writable"
    return None


def no_room(path: str) -> OSError | None:
    """Return why this process cannot have three more files open, which SQLite needs; None: it can."""
    opened: list[int] = []
    try:
        for _ in range(3):
            one = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.append(one)  # each, as the next may fail
    except OSError as error:
        return error
    finally:
        for one in opened:
            os.close(one)
    return None


def machine() -> str:
    """Return what differs after a restart of the machine, and where its boot time is counted differently.

    Empty where that cannot be known.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # not Linux
        return ""
    try:
        offsets = Path("/proc/self/timens_offsets").read_text().split("boottime")[-1].split()
    except OSError:  # a kernel without time namespaces
        return boot
    return boot if set(offsets) <= {"0"} else f"{boot} {' '.join(offsets)}"
