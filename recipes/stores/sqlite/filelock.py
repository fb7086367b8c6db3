"""A lock on a file that the kernel keeps, and drops when the process dies that has it.

It belongs to the open file: on Linux an OFD lock, elsewhere that of flock(). Unlike a POSIX record lock it
does not go when somebody in the same process opens the file a second time and closes it, for a backup,
say. A child that was forked, and did not close what it inherited, keeps it after its parent's death.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

__all__ = ["is_at", "is_taken", "release", "remove_free", "take"]

TAKEN = (errno.EACCES, errno.EAGAIN)
FLOCK = "hhqqi"
"""The kernel's struct flock: type, whence, start, length (0: all of it), process (0 for an OFD lock)."""


def take(descriptor: int) -> bool:
    """Take the lock of a file that is open for writing; False: somebody has it. Never waits."""
    try:
        _set(descriptor, fcntl.F_WRLCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def release(descriptor: int) -> None:
    """Let the lock go, also for a child that inherited it."""
    _set(descriptor, fcntl.F_UNLCK, fcntl.LOCK_UN)


def is_taken(descriptor: int) -> bool:
    """Whether anybody has the lock; on Linux nobody who takes it meanwhile is in the way of this look."""
    if sys.platform != "linux":
        if not take(descriptor):
            return True
        release(descriptor)
        return False
    asked = struct.pack(FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0)
    found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    return bool(struct.unpack(FLOCK, found)[0] != fcntl.F_UNLCK)


def remove_free(path: str) -> bool | None:
    """Remove a lock that nobody holds; False: it may be held, None: there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    try:  # with the lock taken: a process about to take it sees that this is no longer its file
        free = take(descriptor) and is_at(descriptor, path)
        if free:
            os.unlink(path)  # noqa: PTH108
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return free


def is_at(descriptor: int, path: str) -> bool:
    """Whether this path still leads to the file that is open here."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


def _set(descriptor: int, kind: int, how: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(FLOCK, kind, 0, 0, 0, 0))
    else:
        fcntl.flock(descriptor, how)
