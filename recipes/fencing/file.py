"""A gate for a file that the processes of one machine share."""

from __future__ import annotations

import os
import re
import stat
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from recipes._descriptors import Descriptor
from recipes._disks import abroad, mounted_by_itself
from recipes._rules.fence import Pass, Proof, Seen, ask

__all__ = ["FileGate"]

SUFFIX = ".fence"
WIDTH = 19
SIZE = 2 * WIDTH + 2
ELSEWHERE = "put the file on a local disk, or use SqlGate or RedisGate for several machines"

_ADMITTED: set[tuple[str, int, int]] = set()
"""The fence files, processes and threads that are inside, or on their way in. Not by `Path`: what hashes
one is Python code, where an interrupt may strike.
"""


class FileGate:
    """A gate for one file, which it replaces as a whole, or for all that one block does.

    What it has seen is kept in ``<path>.fence``, on the disk before the write that it admits.
    Every writer and reader has to come through a gate. The file system has to be a local one:
    the gate relies on ``flock`` and on renaming. Processes in several containers have to mount
    the directory of the file: a file that is mounted by itself has another fence in each.

    Raises:
        NotImplementedError: This platform has no ``fcntl`` (Windows).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if find_spec("fcntl") is None:  # Windows: the other gates need none of it
            raise NotImplementedError(
                "this platform has no fcntl, with which FileGate locks its file; use SqlGate or RedisGate, "
                "or Linux, macOS or another Unix"
            )
        self.path = Path(os.path.realpath(path))  # links to one file are one file, wherever we go
        self._fence = self.path.with_name(self.path.name + SUFFIX)
        self._looked = self._tidied = False

    def write(self, grant: Proof, data: bytes) -> None:
        """Replace what the file says; others see all of it, or nothing.

        Args:
            grant: A grant, or a token.
            data: The whole new content.

        Raises:
            StaleToken: A later holder was there before; the file is as it was.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: The grant is shared; a bad token; the fence file is damaged, or cannot be shared.
            RuntimeError: This thread is inside of `admit`, and would wait for itself.
            OSError: The file cannot be written.
        """
        asking = self._ask(grant, shared=False)
        if not self._tidied:  # once a gate: the directory may have many names
            self._remove_left()
            self._tidied = True
        # The draft is written outside the gate: a process stopped there stops no other.
        with self._draft(data) as draft, self._inside(asking):
            draft.replace(self.path)
            _sync(self.path.parent)

    def read(self, grant: Proof, *, shared: bool = False) -> bytes:
        """Return what the file says; from now on older writers are refused.

        Args:
            grant: A grant, or a token.
            shared: As a reader, which writes nothing.

        Raises:
            FileNotFoundError: There is none yet.
            StaleToken: A later holder was there before.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant without ``shared=True``; a bad token; the fence file is damaged, or
                cannot be shared.
            RuntimeError: This thread is inside of `admit`, and would wait for itself.
            OSError: It cannot be read; or, as `admit` raises it.
        """
        with self.admit(grant, shared=shared):
            return self.path.read_bytes()

    @contextmanager
    def admit(self, grant: Proof, *, shared: bool = False) -> Generator[None, None, None]:
        """Let a ``with`` block do what it likes: nobody else is inside meanwhile.

        For a file that is appended to, or for several. Keep the block short: others wait for
        it without a limit, later holders too. In the block read and write the file itself: `read`,
        `write` and `admit` of the same file would wait for the block to end, and are refused.

        Args:
            grant: A grant, or a token.
            shared: As a reader, which writes nothing.

        Raises:
            StaleToken: A later holder was there before.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad token; the fence file is damaged, or cannot be
                shared.
            RuntimeError: This thread is inside of `admit` already.
            OSError: Other code of this process closed the fence file, so that others were let in meanwhile.
        """
        with self._inside(self._ask(grant, shared=shared)):
            yield

    def _ask(self, grant: Proof, *, shared: bool) -> Pass:
        if not self._looked:
            self._look()
            self._looked = True
        return ask(self.path.name, grant, shared=shared)

    def _look(self) -> None:
        """Refuse a place where others do not see the fence, or its lock."""
        away = abroad(self.path.parent)
        wrong = f"{away}; {ELSEWHERE}" if away else mounted_by_itself(self.path, "FileGate")
        if wrong is not None:
            raise ValueError(wrong)

    @contextmanager
    def _inside(self, asking: Pass) -> Generator[None, None, None]:
        import fcntl  # noqa: PLC0415 - not on every platform

        # The thread of the system: the lock of the file stops all greenlets of gevent in it.
        mine = str(self._fence), os.getpid(), threading.get_native_id()
        if mine in _ADMITTED:
            raise RuntimeError(
                f"this thread is already inside the gate of {self.path} and would wait for itself; read and "
                "write the file itself there, or leave the block first"
            )
        fence = None
        try:
            _ADMITTED.add(mine)  # before it locks: a signal handler may come as soon as it has
            fence = self._locked()
            seen = _parsed(os.pread(fence.number, SIZE + 1, 0), self._fence)
            now = seen.after(asking)
            if now != seen:
                os.pwrite(fence.number, f"{now.newest:0{WIDTH}} {now.writer:0{WIDTH}}\n".encode(), 0)
                _empty_cache(fence.number)
                os.fsync(fence.number)
            yield
            if fence.taken:
                raise OSError(
                    f"{self._fence} was closed by other code of this process (os.closerange, for example): "
                    "others may have been inside before this block ended; have it close its own files only"
                )
        finally:  # each step whatever strikes as the one before returns
            try:
                # Closing would not open it, if a child inherited it; and a child does not open its parent's.
                if fence is not None and os.getpid() == mine[1] and fence.mine:
                    fcntl.flock(fence.number, fcntl.LOCK_UN)
            finally:
                try:
                    if fence is not None:
                        fence.close()
                finally:
                    _ADMITTED.discard(mine)

    def _locked(self) -> Descriptor:
        """Open the fence file and lock it, however often it was replaced meanwhile."""
        import fcntl  # noqa: PLC0415 - not on every platform

        flags = os.O_RDWR | os.O_CLOEXEC
        while True:
            # First without O_CREAT: in a sticky directory fs.protected_regular denies it for another's file.
            try:
                fence = Descriptor(os.open(self._fence, flags))
            except FileNotFoundError:
                making = flags | os.O_CREAT | os.O_EXCL
                try:
                    fence = Descriptor(os.open(os.path.realpath(self._fence), making, 0o666))
                except FileExistsError:  # another has made it meanwhile
                    continue
            try:
                number = fence.number
                fcntl.flock(number, fcntl.LOCK_EX)
                if self._fence.exists() and os.path.samestat(os.fstat(number), self._fence.stat()):
                    if os.fstat(number).st_size == 0:
                        self._share(number)
                        _sync(self._fence.parent)
                    return fence
            except BaseException:
                fence.close()
                raise
            fence.close()

    def _share(self, fence: int) -> None:
        """Let those write a new fence that may write the file, or replace it as the directory permits.

        Only a fence that this user made, not a file of the user's to which a link of that name leads.
        """
        found = os.fstat(fence)
        if found.st_uid != os.geteuid() or found.st_nlink != 1 or not _is_at(found, self._fence):
            return
        file, folder = _status(self.path), self._fence.parent.stat()
        _give(fence, folder if file is None else file)
        group = os.fstat(fence).st_gid
        mode = (found if file is None else file).st_mode & 0o666 | 0o600  # a read-only file is replaced, too
        if file is not None and group != file.st_gid:
            mode &= ~0o060  # the file's group may; this one is another
        if group == folder.st_gid and folder.st_mode & (stat.S_ISVTX | stat.S_IWGRP) == stat.S_IWGRP:
            mode |= 0o060
        with suppress(OSError):  # a file system without permissions
            os.fchmod(fence, mode)

    @contextmanager
    def _draft(self, data: bytes) -> Generator[Path, None, None]:
        """Write the new content beside the old, with its owner, group and permissions, and on the disk."""
        found = _status(self.path)
        # Until it has the permissions of the file, nobody else opens it.
        draft, file = self._locked_draft(0o666 if found is None else 0o600)
        try:
            with file:
                target = file.fileno()
                if found is not None:
                    _give(target, found)
                    os.fchmod(target, stat.S_IMODE(found.st_mode))  # last: a new owner takes bits away
                file.write(data)
                file.flush()
                _empty_cache(target)
                os.fsync(target)
                yield draft
        finally:
            draft.unlink(missing_ok=True)

    def _locked_draft(self, mode: int) -> tuple[Path, IO[bytes]]:
        """Make a draft that is locked as long as it is open, so that others see that its writer lives."""
        import fcntl  # noqa: PLC0415 - not on every platform

        while True:
            draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
            file = os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(os.fstat(file.fileno()), draft):
                    return draft, file
            file.close()  # it was not locked yet, and another writer removes it as one that was left

    def _remove_left(self) -> None:
        """Remove the drafts of writers that have died: nobody has them locked."""
        import fcntl  # noqa: PLC0415 - not on every platform

        drafts = re.compile(re.escape(f".{self.path.name}.") + "[0-9a-f]{32}")
        looking = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            for name in filter(drafts.fullmatch, os.listdir(self.path.parent)):  # noqa: PTH208 - names only
                left = self.path.with_name(name)
                with suppress(OSError), os.fdopen(os.open(left, looking), "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_at(os.fstat(file.fileno()), left):
                        left.unlink()


def _is_at(found: os.stat_result, path: Path) -> bool:
    """Whether this very file is at a path, and no link to it."""
    with suppress(FileNotFoundError):
        return os.path.samestat(found, path.lstat())
    return False


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _give(descriptor: int, to: os.stat_result) -> None:
    """Give a file the owner and the group of another; its group only, or neither, if no more is permitted."""
    for owner, group in ((to.st_uid, to.st_gid), (-1, to.st_gid)):
        with suppress(OSError):
            os.fchown(descriptor, owner, group)
            return


def _parsed(text: bytes, fence: Path) -> Seen:
    """Return what a fence file says; an empty one was made and has not let anybody in."""
    if not text:
        return Seen()
    newest, _, writer = text.decode("ascii", "replace").rstrip("\n").partition(" ")
    if len(text) != SIZE or not (newest.isdecimal() and writer.isdecimal()):
        raise ValueError(f"{fence} is damaged: it should hold two tokens; see who wrote to it, then mend it")
    return Seen(int(newest), int(writer))


def _sync(folder: Path) -> None:
    """Have a change of names in ``folder`` on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _empty_cache(handle)
        os.fsync(handle)
    finally:
        os.close(handle)


def _empty_cache(descriptor: int) -> None:
    """Write a file, and the cache of its disk, to the disk; where fsync does so itself there is no need."""
    import fcntl  # noqa: PLC0415 - not on every platform

    command = getattr(fcntl, "F_FULLFSYNC", None)  # macOS has it
    if command is not None:
        with suppress(OSError):  # not all file systems can
            fcntl.fcntl(descriptor, command)
