from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recipes import StaleToken, _disks
from recipes.fencing import FileGate
from recipes.fencing.file import _ADMITTED
from tests.contract.world import until
from tests.run.striking import PACKAGE, Handled, Strike


@pytest.fixture
def gate(tmp_path: Path) -> FileGate:
    return FileGate(str(tmp_path / "catalog.json"))


def fence(gate: FileGate) -> Path:
    return Path(f"{gate.path}.fence")


def test_only_the_file_and_its_fence_are_there(gate: FileGate) -> None:
    gate.write(7, b"first")
    gate.write(8, b"second")
    with pytest.raises(StaleToken) as refused:
        gate.write(7, b"late")
    assert refused.value.name == "catalog.json"
    assert {path.name for path in gate.path.parent.iterdir()} == {"catalog.json", "catalog.json.fence"}
    assert gate.path.read_bytes() == b"second"
    assert fence(gate).read_text() == f"{8:019} {8:019}\n"


def test_a_draft_that_cannot_be_written_is_gone(gate: FileGate) -> None:
    nothing: bytes = None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        gate.write(7, nothing)
    assert list(gate.path.parent.iterdir()) == []


def test_there_is_nothing_to_read_yet(gate: FileGate) -> None:
    with pytest.raises(FileNotFoundError):
        gate.read(7)
    with pytest.raises(StaleToken):  # it was here all the same
        gate.write(6, b"late")


def test_a_reader_sees_the_old_or_the_new_while_it_is_replaced(gate: FileGate) -> None:
    gate.write(1, b"old")
    with gate.path.open("rb") as opened:
        gate.write(2, b"new")
        assert opened.read() == b"old"
    assert gate.read(2) == b"new"


def test_permissions_stay(gate: FileGate) -> None:
    gate.path.write_bytes(b"")
    gate.path.chmod(0o640)
    gate.write(1, b"x")
    assert stat.S_IMODE(gate.path.stat().st_mode) == 0o640


def another_group() -> int:
    """Return a group to which this user may give a file, and which it would not have by itself."""
    if os.geteuid() == 0:
        return 3002
    others = [group for group in os.getgroups() if group != os.getegid()]
    return others[0] if others else pytest.skip("NOT TESTED: this user is in one group only")


def owner_group_and_mode(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def test_owner_and_group_stay_and_the_fence_has_them(gate: FileGate) -> None:
    owner, group = 3001 if os.geteuid() == 0 else os.geteuid(), another_group()
    gate.path.write_bytes(b"")
    os.chown(gate.path, owner, group)
    gate.path.chmod(0o2750)  # giving a file away takes this bit from it
    gate.write(1, b"x")
    assert gate.path.read_bytes() == b"x"
    assert owner_group_and_mode(gate.path) == (owner, group, 0o2750)
    assert owner_group_and_mode(fence(gate)) == (owner, group, 0o640)
    os.chown(fence(gate), -1, os.getegid())
    gate.write(2, b"y")
    assert fence(gate).stat().st_gid == os.getegid(), "what an operator has changed stays"


@pytest.mark.parametrize("permitted", ["group", "nothing"])
def test_what_may_not_be_given_away_is_written_all_the_same(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch, permitted: str
) -> None:
    def fchown(descriptor: int, owner: int, group: int) -> None:
        if permitted == "nothing" or owner != -1:
            raise PermissionError
        real(descriptor, owner, group)

    group, real = another_group(), os.fchown
    gate.path.write_bytes(b"")
    os.chown(gate.path, -1, group)
    gate.path.chmod(0o660)
    monkeypatch.setattr(os, "fchown", fchown)
    gate.write(1, b"x")
    if permitted == "group":
        assert owner_group_and_mode(gate.path) == (os.geteuid(), group, 0o660)
        assert owner_group_and_mode(fence(gate)) == (os.geteuid(), group, 0o660)
    else:
        assert owner_group_and_mode(gate.path) == (os.geteuid(), os.getegid(), 0o660)
        assert owner_group_and_mode(fence(gate)) == (os.geteuid(), os.getegid(), 0o600), "for no other group"


def test_a_draft_is_read_by_nobody_before_it_has_the_permissions_of_the_file(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    real = os.fchmod
    gate.path.write_bytes(b"")
    gate.path.chmod(0o600)
    with gate.admit(1):
        pass  # the fence is there

    def fchmod(descriptor: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", fchmod)
    gate.write(1, b"secret")
    assert modes == [0o600]


def test_without_a_file_the_fence_is_for_those_that_may_write_the_directory(gate: FileGate) -> None:
    group = another_group()
    os.chown(gate.path.parent, -1, group)
    for mode, wanted in ((0o770, 0o664), (0o750, 0o644), (0o1770, 0o644)):
        gate.path.parent.chmod(mode)
        before = os.umask(0o022)
        with gate.admit(1):
            pass
        os.umask(before)
        assert owner_group_and_mode(fence(gate)) == (os.geteuid(), group, wanted)
        fence(gate).unlink()


def test_a_link_in_the_place_of_a_fence_gives_nothing_away(gate: FileGate, tmp_path: Path) -> None:
    """Whoever may write the directory could have root give away any file that is empty."""
    gate.path.write_bytes(b"")
    gate.path.chmod(0o666)
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch(0o600)
    for link in (fence(gate).symlink_to, fence(gate).hardlink_to):
        precious.write_bytes(b"")
        link(precious)
        with gate.admit(1):
            pass
        assert stat.S_IMODE(precious.stat().st_mode) == 0o600
        fence(gate).unlink()


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory that other users reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def as_user(owner: int, group: int, use: Callable[[], object]) -> None:
    """Have another user do it, with an ordinary umask, in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.umask(0o022)
            os.setgroups([group])
            os.setgid(owner)  # a group of its own, as most users have
            os.setuid(owner)
            use()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def use_it(path: Path, token: int) -> None:
    gate = FileGate(path)
    gate.write(token, b"%d" % token)
    assert gate.read(token) == b"%d" % token
    with gate.admit(token):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root is several users")
@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_root_wrote_once_is_its_owners_as_before(common: Path, there: bool) -> None:
    path = common / "catalog.json"
    os.chown(common, 3001, 3002)
    if there:
        path.write_bytes(b"")
        os.chown(path, 3001, 3002)
    use_it(path, 1)
    as_user(3001, 3002, lambda: use_it(path, 2))
    use_it(path, 3)
    as_user(3001, 3002, lambda: use_it(path, 4))
    assert path.read_bytes() == b"4"


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: root may write whatever the permissions are")
def test_a_file_that_is_read_only_is_replaced_again_and_again(common: Path) -> None:
    path = common / "catalog.json"
    os.chown(common, 3001, 3002)
    path.write_bytes(b"")
    path.chmod(0o444)
    os.chown(path, 3001, 3002)
    for token in (1, 2):
        as_user(3001, 3002, partial(use_it, path, token))
    assert owner_group_and_mode(path) == (3001, 3002, 0o444)


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root is several users")
@pytest.mark.parametrize("there", [True, False])
def test_users_of_one_group_share_a_gate(common: Path, there: bool) -> None:
    path = common / "catalog.json"
    os.chown(common, 0, 3002)
    common.chmod(0o775)
    if there:
        path.write_bytes(b"")
        os.chown(path, 3001, 3002)
    as_user(3001, 3002, lambda: use_it(path, 1))
    as_user(3003, 3002, lambda: use_it(path, 2))
    as_user(3001, 3002, lambda: use_it(path, 3))
    assert path.read_bytes() == b"3"


@pytest.mark.parametrize("text", [b"7", b"x" * 40, b"7" * 19 + b" " + b"7" * 19 + b"\n7", b"\xff" * 40])
def test_a_damaged_fence_lets_nobody_in(gate: FileGate, text: bytes) -> None:
    fence(gate).write_bytes(text)
    with pytest.raises(ValueError, match=r"catalog.json.fence is damaged"):
        gate.write(7, b"x")
    assert not gate.path.exists()


def test_a_fence_that_was_made_and_never_written_is_as_none(gate: FileGate) -> None:
    fence(gate).touch()
    gate.write(7, b"x")


def test_a_block_has_the_gate_to_itself(gate: FileGate) -> None:
    """Of two that come one waits, in another thread or process, and is judged when it gets in."""
    started = threading.Event()
    outcome: list[str] = []

    def late() -> None:
        started.set()
        try:
            gate.write(6, b"late")
        except StaleToken:
            outcome.append("refused")

    with gate.admit(7):
        thread = threading.Thread(target=late)
        thread.start()
        assert started.wait(30)
        thread.join(0.1)  # it waits at the gate, or is about to: either is refused
        assert outcome == []
        gate.path.write_bytes(b"by the holder")
    thread.join(10)
    assert outcome == ["refused"]
    assert gate.path.read_bytes() == b"by the holder"


def mounts(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    monkeypatch.setattr(_disks, "_mounts", lambda: iter([("/", "ext4"), *entries]))


USES: list[Callable[[FileGate], object]] = [
    lambda gate: gate.write(7, b"x"),
    lambda gate: gate.read(7),
    lambda gate: gate.admit(7).__enter__(),
]


@pytest.mark.parametrize("use", USES, ids=["write", "read", "admit"])
def test_a_file_that_is_mounted_by_itself(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch, use: Callable[[FileGate], object]
) -> None:
    """Its fence would lie in the layer of each container, and each would admit its own writers."""
    gate.path.write_bytes(b"shared")
    mounts(monkeypatch, (str(gate.path), "ext4"))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"catalog\.json is mounted by itself, without what FileGate"):
            use(gate)
    assert [path.name for path in gate.path.parent.iterdir()] == ["catalog.json"]
    mounts(monkeypatch, (str(gate.path.parent), "ext4"))
    gate.write(7, b"x")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: mounting needs root")
def test_a_file_that_really_is_mounted_by_itself(gate: FileGate, tmp_path: Path) -> None:
    inside = tmp_path / "container" / "catalog.json"
    inside.parent.mkdir()
    inside.touch()
    gate.path.touch()
    if subprocess.run(["mount", "--bind", gate.path, inside], check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: mounting is not allowed here")
    try:
        with pytest.raises(ValueError, match="mount its directory instead"), FileGate(inside).admit(7):
            pass
    finally:
        subprocess.run(["umount", "--lazy", inside], check=True)


@pytest.mark.parametrize("kind", ["nfs4", "fuse", "fuse.sshfs"])
def test_a_network_file_system(gate: FileGate, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts(monkeypatch, (str(gate.path.parent), kind))
    said = f"{gate.path.parent} is on {kind}, where locks and shared memory cannot be relied on; put the file"
    with pytest.raises(ValueError, match=said):
        gate.write(7, b"x")
    assert list(gate.path.parent.iterdir()) == []


class Disk:
    """What was synced, in order: the names and content of files, and directories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[tuple[str, bytes]] = []
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._note)

    def _note(self, descriptor: int) -> None:
        self._fsync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self.synced.append((path.name, b"" if path.is_dir() else path.read_bytes()))


def test_what_was_seen_is_on_the_disk_before_anybody_is_let_in(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the fence is there, by its name, and says what it said when it let somebody in."""
    disk = Disk(monkeypatch)
    folder, name = gate.path.parent.name, fence(gate).name
    with gate.admit(7):
        assert disk.synced == [(folder, b""), (name, f"{7:019} {7:019}\n".encode())]
    disk.synced.clear()
    with gate.admit(7):  # nothing has changed
        assert disk.synced == []
    with gate.admit(8, shared=True):
        assert disk.synced == [(name, f"{8:019} {7:019}\n".encode())]


def test_what_is_written_is_on_the_disk_before_its_name_and_the_name_before_it_returns(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(draft: Path, path: Path) -> Path:
        assert (draft.name, b"new") in disk.synced
        assert (fence(gate).name, f"{8:019} {8:019}\n".encode()) in disk.synced
        disk.synced.clear()
        return real(draft, path)

    gate.write(7, b"old")
    disk, real = Disk(monkeypatch), Path.replace
    monkeypatch.setattr(Path, "replace", replace)
    gate.write(8, b"new")
    assert disk.synced == [(gate.path.parent.name, b"")]


@pytest.mark.parametrize("can", [True, False])
def test_where_a_sync_leaves_the_cache_of_the_disk_alone_that_is_emptied_before_it(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch, can: bool
) -> None:
    """As on macOS; not all of its file systems can."""
    emptied: list[str] = []

    def control(descriptor: int, command: int) -> None:
        assert command == 51
        emptied.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        assert len(disk.synced) == len(emptied) - 1
        if not can:
            raise OSError

    disk = Disk(monkeypatch)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    gate.write(7, b"x")
    assert len(emptied) == 4, "the draft, the fence, and the directory for the name of each"
    assert emptied == [name for name, _ in disk.synced]


def test_a_fence_that_is_replaced_while_somebody_waits_for_it(gate: FileGate) -> None:
    """As by an operator who resets it: the one who waits looks again, and locks the new one."""
    started = threading.Event()

    def wait() -> None:
        started.set()
        gate.write(2, b"new")

    with gate.admit(7):
        thread = threading.Thread(target=wait)
        thread.start()
        assert started.wait(30)
        thread.join(0.1)  # most likely it waits now; if not, the test is an easier one
        fence(gate).unlink()
    thread.join(10)
    assert gate.path.read_bytes() == b"new"
    assert fence(gate).read_text().startswith(f"{2:019}")


def test_a_fence_that_is_there_is_not_asked_to_be_made(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fs.protected_regular that is denied to all but its owner in a sticky directory, such as /tmp."""
    real = os.open
    made_by_another: list[str] = []

    def protected(path: Any, flags: int, mode: int = 0o777) -> int:
        there = os.path.lexists(path)
        if flags & os.O_CREAT and not there and str(path) in made_by_another:
            made_by_another.remove(str(path))
            Path(path).touch()
            there = True
        if flags & os.O_CREAT and not flags & os.O_EXCL and there:
            raise PermissionError
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", protected)
    made_by_another.append(str(fence(gate)))
    gate.write(1, b"x")
    gate.write(2, b"y")
    assert made_by_another == [], "it was made between the two tries to open it"
    assert gate.read(2) == b"y"


def test_a_link_to_a_fence_that_is_not_there_yet(gate: FileGate, tmp_path: Path) -> None:
    fence(gate).symlink_to(tmp_path / "elsewhere")
    gate.write(1, b"x")
    assert (tmp_path / "elsewhere").read_text().startswith(f"{1:019}")
    assert fence(gate).is_symlink()


def test_an_error_in_the_block_opens_the_gate(gate: FileGate) -> None:
    with pytest.raises(ZeroDivisionError), gate.admit(7):
        raise ZeroDivisionError
    gate.write(7, b"x")


def opened_below(folder: Path) -> list[Path]:
    """Return what this process has open there; elsewhere its other threads open and close what they need."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(descriptor.readlink())
    return [path for path in found if path.is_relative_to(folder)]


def test_no_file_stays_open(gate: FileGate) -> None:
    for token in (1, 2, 1):
        try:
            gate.write(token, b"x")
        except StaleToken:
            continue
    assert opened_below(gate.path.parent) == []


def test_a_fence_that_other_code_closed_is_told_and_its_number_is_left_alone(
    gate: FileGate, tmp_path: Path
) -> None:
    """The lock goes with it; and what was opened under its number meanwhile was unlocked, and closed."""
    theirs, opened = tmp_path / "theirs", []

    def take() -> None:
        is_fence = lambda one: os.path.realpath(one) == str(fence(gate))  # noqa: E731
        (number,) = [int(one.name) for one in Path("/proc/self/fd").iterdir() if is_fence(one)]
        os.close(number)
        assert is_free(gate)
        opened.append(os.open(theirs, os.O_WRONLY | os.O_CREAT))
        assert opened == [number]
        fcntl.flock(number, fcntl.LOCK_EX)

    with pytest.raises(OSError, match="closed by other code of this process"), gate.admit(7):
        take()
    assert os.write(opened[0], b"still open") == 10
    with theirs.open("ab") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(opened[0])
    gate.write(8, b"x")


def test_a_link_to_a_file_is_the_file(gate: FileGate, tmp_path: Path) -> None:
    gate.write(9, b"new")
    link = tmp_path / "link"
    link.symlink_to(gate.path)
    with pytest.raises(StaleToken):
        FileGate(link).write(3, b"old")
    assert link.is_symlink()
    FileGate(link).write(10, b"newer")
    assert gate.path.read_bytes() == b"newer"


def test_a_child_that_was_forked_in_the_block_keeps_nobody_out(gate: FileGate) -> None:
    reading, writing = os.pipe()
    with gate.admit(1):
        child = os.fork()
        if not child:
            os.read(reading, 1)
            os._exit(0)
    try:
        gate.write(2, b"next")  # or it waits for as long as the child lives
    finally:
        os.write(writing, b".")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_child_that_leaves_the_block_does_not_open_its_parents_gate(gate: FileGate) -> None:
    inside = gate.admit(1)
    with inside:
        child = os.fork()
        if not child:
            inside.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with fence(gate).open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with fence(gate).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    "asks",
    [
        lambda gate: gate.write(8, b"again"),
        lambda gate: gate.read(8),
        lambda gate: gate.admit(8).__enter__(),
    ],
    ids=["write", "read", "admit"],
)
@pytest.mark.timeout(60)
def test_a_thread_inside_that_asks_again_is_refused(
    gate: FileGate, asks: Callable[[FileGate], object]
) -> None:
    same = FileGate(gate.path.parent / "." / gate.path.name)  # another gate of the same file
    with gate.admit(7):
        gate.path.write_bytes(b"inside")
        with pytest.raises(
            RuntimeError, match=r"already inside .*would wait for itself.*leave the block first"
        ):
            asks(same)
        assert fence(gate).read_text() == f"{7:019} {7:019}\n", "it was not admitted"
        gate.path.with_name("other").write_bytes(b"")
        FileGate(gate.path.with_name("other")).write(1, b"another file's gate is no part of it")
    assert gate.read(7) == b"inside"
    gate.write(8, b"again")
    assert gate.path.read_bytes() == b"again"
    assert not [path for path in gate.path.parent.iterdir() if path.name.startswith(".")]


def test_another_thread_waits_for_the_one_inside(gate: FileGate) -> None:
    with ThreadPoolExecutor(1) as pool:
        with gate.admit(7):
            waiting = pool.submit(gate.write, 8, b"other")
            assert not waiting.done()
            gate.path.write_bytes(b"inside")
        waiting.result(20)
    assert gate.path.read_bytes() == b"other"


def test_a_forked_child_waits_for_its_parent_inside(gate: FileGate) -> None:
    with gate.admit(7):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                FileGate(gate.path).write(8, b"child")
                code = 0
            finally:
                os._exit(code)
        gate.path.write_bytes(b"parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gate.path.read_bytes() == b"child"


def test_one_that_was_refused_leaves_the_gate_to_others(gate: FileGate) -> None:
    gate.write(7, b"x")
    with pytest.raises(StaleToken):
        gate.write(6, b"late")
    gate.write(7, b"again")
    assert gate.read(7) == b"again"


# What writers leave that are killed.


def drafts(gate: FileGate) -> list[Path]:
    return [path for path in gate.path.parent.iterdir() if path.name.startswith(".")]


@contextlib.contextmanager
def waiting_at(gate: FileGate, token: int) -> Iterator[int]:
    """Hold the gate while another process has written its draft and waits; yields its number."""
    with gate.admit(token - 1):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                FileGate(gate.path).write(token, b"by the child")
                code = 0
            finally:
                os._exit(code)
        assert until(lambda: [draft.read_bytes() for draft in drafts(gate)] == [b"by the child"], 30)
        yield child


def test_the_draft_of_a_writer_that_was_killed_is_removed_by_the_next(gate: FileGate) -> None:
    with waiting_at(gate, 8) as child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert len(drafts(gate)) == 1
    gate.write(9, b"next")
    assert {path.name for path in gate.path.parent.iterdir()} == {"catalog.json", "catalog.json.fence"}
    assert gate.path.read_bytes() == b"next"


def test_the_draft_of_a_writer_that_waits_stays(gate: FileGate) -> None:
    with waiting_at(gate, 8) as child:
        (draft,) = drafts(gate)
        gate._remove_left()
        assert drafts(gate) == [draft]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gate.path.read_bytes() == b"by the child"


@pytest.mark.parametrize("over", [True, False])
def test_a_draft_that_is_removed_before_it_is_locked_is_made_again(
    gate: FileGate, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    """Another writer takes it for one that was left: it has removed it, or is about to."""
    real = fcntl.flock

    def flock(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        (draft,) = drafts(gate)
        if over:
            gate._remove_left()
            assert not drafts(gate)
        else:
            others.append(draft.open("rb"))
            real(others[0], fcntl.LOCK_EX)
        real(file, how)

    others: list[Any] = []
    with gate.admit(6):
        pass
    monkeypatch.setattr(fcntl, "flock", flock)
    gate.write(7, b"x")
    assert gate.path.read_bytes() == b"x"
    for other in others:
        other.close()
    FileGate(gate.path).write(7, b"y")  # each gate looks once
    assert drafts(gate) == []


def test_what_is_no_draft_of_this_file_stays(gate: FileGate) -> None:
    hexadecimal = "0123456789abcdef" * 2
    names = [".catalog.json.backup", f".catalog-json.{hexadecimal}", f".catalog.json.{hexadecimal}.old"]
    for name in names:
        gate.path.with_name(name).touch()
    gate.path.with_name(f".catalog.json.{hexadecimal}").symlink_to(gate.path)
    os.mkfifo(gate.path.with_name(f".catalog.json.{hexadecimal[::-1]}"))
    gate.write(1, b"x")
    assert {path.name for path in drafts(gate)} >= {*names, f".catalog.json.{hexadecimal}"}
    assert gate.path.read_bytes() == b"x"


class StrikeInPaths(Strike):
    """Strikes in what the gate calls of ``pathlib``, too."""

    within = (PACKAGE, pathlib.__file__.removesuffix(".py").removesuffix("__init__"))


def admit(gate: FileGate, token: int) -> None:
    with gate.admit(token):
        gate.path.write_bytes(b"in the block")


def is_free(gate: FileGate) -> bool:
    """Whether another descriptor can have the fence at once."""
    with fence(gate).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [Strike, StrikeInPaths])
@pytest.mark.parametrize("use", [lambda gate, token: gate.write(token, b"x"), admit])
def test_an_interrupt_anywhere_leaves_the_gate_open(
    gate: FileGate, use: Callable[[FileGate, int], None], kind: type[Strike]
) -> None:
    for at in itertools.count(1):
        strike = kind(at)
        try:
            with strike:
                use(gate, at)
        except KeyboardInterrupt:
            pass
        assert is_free(gate), strike.where
        assert not _ADMITTED, strike.where
        if not strike.where:
            break
    assert at > 20


@pytest.mark.parametrize("use", [lambda gate, token: gate.write(token, b"x"), admit])
def test_a_handler_never_waits_for_what_it_interrupted(
    gate: FileGate, use: Callable[[FileGate, int], None]
) -> None:
    """It is let in, or told; if it waited, it would wait for its own thread."""
    outcomes = set()

    def handler() -> None:
        inside = not is_free(gate)
        if inside and not _ADMITTED:
            outcomes.add("waits for itself")
            return
        try:
            gate.write(1000, b"by the handler")
        except RuntimeError:
            outcomes.add("told")
        else:
            outcomes.add("let in")

    for at in itertools.count(1):
        handled = Handled(at, handler)
        with handled:
            use(gate, 1000)
        if not handled.where:
            break
    assert outcomes == {"told", "let in"}
