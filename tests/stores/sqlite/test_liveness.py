"""Who is alive: the lock that the kernel drops, seen from another process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from recipes.stores.sqlite import filelock
from recipes.stores.sqlite.liveness import Folder, LivenessLock
from recipes.stores.sqlite.notifications import Notifications
from tests.run.test_fork import in_child


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "locks.db").touch(0o600)
    one = Folder(str(tmp_path / "locks.db"))
    one.make()
    return one


def elsewhere(folder: Folder, session: str) -> tuple[list[str], bool]:
    """Return what another process sees of a session: is it dead, and is it alive."""
    script = (
        "import sys; from recipes.stores.sqlite.liveness import Folder\n"
        "folder = Folder(sys.argv[1]); print(folder.dead([sys.argv[2]]), folder.living([sys.argv[2]]))"
    )
    path = folder.path.removesuffix("-clients")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, path, session], capture_output=True, text=True, check=True, cwd=root
    )
    dead, _, living = done.stdout.strip().rpartition(" ")
    return eval(dead), living == "True"


def names(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def test_a_session_is_seen_to_live_and_to_die(folder: Folder) -> None:
    one = LivenessLock(folder, "a")
    assert elsewhere(folder, "a") == ([], True)
    assert (folder.dead(["a"]), folder.living(["a"])) == ([], True)
    assert elsewhere(folder, "a") == ([], True)  # looking at it here has not dropped it
    one.drop()
    one.drop()
    assert elsewhere(folder, "a") == (["a"], False)
    assert folder.dead(["a", "a"]) == ["a"]


def test_of_a_session_without_a_lock_nothing_is_known(folder: Folder) -> None:
    assert (folder.dead(["nobody"]), folder.living(["nobody"])) == ([], False)


def test_names_that_are_not_of_our_making_lead_nowhere(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "outside.lock").touch()
    assert folder.dead(["../outside"]) == []
    folder.forget(["../outside"])
    assert (tmp_path / "outside.lock").exists()


def test_a_forked_child_keeps_no_session_of_its_parents_alive(folder: Folder) -> None:
    one = LivenessLock(folder, "a")
    seen = in_child(lambda: [folder.dead(["a"]), folder.living(["a"])])
    assert seen == [[], True]
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter here
        child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    os.close(one.descriptor)  # as the death of this process would, while its child lives on
    assert elsewhere(folder, "a") == (["a"], False)
    os.write(writing, b".")
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


def test_what_nobody_knows_and_nobody_keeps_is_removed(folder: Folder) -> None:
    kept = LivenessLock(folder, "kept")
    for session in ("known", "left"):
        Path(folder.lock_of(session)).touch()
        Path(folder.address_of(session)).touch()
    folder.tidy(["known"])
    assert names(folder.path) == ["kept.lock", "known.lock", "known.sock"]
    kept.drop()
    folder.forget(["known", "kept", "nobody"])
    assert names(folder.path) == []


def test_who_tidies_up_meanwhile_keeps_nobody_from_a_lock(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = filelock.take
    meanwhile: list[list[str]] = []

    def tidy_first(descriptor: int) -> bool:
        if not meanwhile:  # the file is there, and is not locked yet
            meanwhile.append(names(folder.path))
            folder.tidy([])
            folder.forget(["a"])
        return real(descriptor)

    meanwhile_held = os.open(folder.lock_of("a").replace(".lock", ".new"), os.O_RDWR | os.O_CREAT, 0o600)
    assert real(meanwhile_held)  # another is about to remove what it takes for left
    threading.Timer(0.005, os.close, [meanwhile_held]).start()
    monkeypatch.setattr(filelock, "take", tidy_first)
    one = LivenessLock(folder, "a")
    monkeypatch.undo()
    assert meanwhile == [["a.new"]]
    assert names(folder.path) == ["a.lock"]
    assert elsewhere(folder, "a") == ([], True)
    folder.tidy([])
    folder.forget(["a"])
    assert names(folder.path) == ["a.lock"]
    one.drop()


def test_a_file_that_was_removed_before_it_was_locked_is_made_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = filelock.take
    removed: list[None] = []

    def remove_first(descriptor: int) -> bool:
        if not removed:
            removed.append(Path(folder.path, "a.new").unlink())
        return real(descriptor)

    monkeypatch.setattr(filelock, "take", remove_first)
    one = LivenessLock(folder, "a")
    monkeypatch.undo()
    assert elsewhere(folder, "a") == ([], True)
    one.drop()


def test_what_was_left_before_it_was_locked_is_removed(folder: Folder) -> None:
    Path(folder.path, "a.new").touch()
    folder.tidy([])
    assert names(folder.path) == []


def busy(descriptor: int) -> bool:
    return False


def unsupported(descriptor: int) -> bool:
    raise OSError(95, "not supported")


@pytest.mark.parametrize("take", [busy, unsupported])
def test_a_lock_that_cannot_be_had_leaves_it_unknown(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, take: Any
) -> None:
    files = len(names("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(filelock, "take", take)
        patch.setattr(Path, "unlink", lambda path: None)  # nor can the file be removed
        one = LivenessLock(folder, "a")
    assert len(names("/proc/self/fd")) == files
    assert (folder.dead(["a"]), folder.living(["a"])) == ([], False)
    assert elsewhere(folder, "a") == ([], False)
    one.drop()
    folder.tidy([])
    assert names(folder.path) == []


def test_a_file_without_permissions_is_locked_all_the_same(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(descriptor: int, mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refused)
    one = LivenessLock(folder, "a")
    assert elsewhere(folder, "a") == ([], True)
    one.drop()


def test_a_copy_that_this_process_makes_of_the_directory_drops_no_lock(
    folder: Folder, tmp_path: Path
) -> None:
    one = LivenessLock(folder, "a")
    shutil.copytree(folder.path, tmp_path / "backup")
    assert elsewhere(folder, "a") == ([], True)
    one.drop()


def test_a_child_drops_nothing_that_is_its_parents(folder: Folder) -> None:
    one = LivenessLock(folder, "a")
    assert in_child(lambda: one.drop() or one.descriptor) == -1  # type: ignore[func-returns-value]
    assert elsewhere(folder, "a") == ([], True)
    one.drop()


def test_a_lock_that_is_dropped_is_dropped_for_whoever_inherited_it(folder: Folder) -> None:
    one = LivenessLock(folder, "a")
    inherited = os.dup(one.descriptor)
    assert elsewhere(folder, "a") == ([], True)
    one.drop()
    assert elsewhere(folder, "a") == (["a"], False)
    os.close(inherited)


def test_elsewhere_than_on_linux_it_is_a_lock_of_flock(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    one = LivenessLock(folder, "a")
    assert (folder.dead(["a"]), folder.living(["a"])) == ([], True)
    folder.forget(["a"])
    one.drop()
    assert (folder.dead(["a"]), folder.living(["a"])) == (["a"], False)


@pytest.mark.parametrize(
    ("file", "wanted"),
    [(0o600, 0o700), (0o660, 0o2770), (0o666, 0o2777), (0o644, 0o700), (0o606, 0o707), (0o640, 0o700)],
)
def test_who_may_write_the_file_may_use_the_directory(tmp_path: Path, file: int, wanted: int) -> None:
    database = tmp_path / "locks.db"
    database.touch()
    folder = Folder(str(database))
    for before in (0o666, 0o600, file):  # as it is shared and taken back, later
        database.chmod(before)
        folder.make()
    folder.make()
    assert Path(folder.path).stat().st_mode & 0o7777 == wanted
    one = LivenessLock(folder, "a")
    assert Path(folder.lock_of("a")).stat().st_mode & 0o777 == wanted & 0o666
    one.drop()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: giving files away needs root")
def test_the_group_of_the_database_may_use_the_directory(folder: Folder, tmp_path: Path) -> None:
    os.chown(tmp_path / "locks.db", 3001, 3002)
    (tmp_path / "locks.db").chmod(0o660)
    folder.make()
    found = Path(folder.path).stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (3001, 3002, 0o2770)
    one = LivenessLock(folder, "a")
    found = Path(folder.lock_of("a")).stat()
    assert (found.st_gid, found.st_mode & 0o777) == (3002, 0o660)
    one.drop()
    (tmp_path / "locks.db").chmod(0o600)
    folder.make()  # it is no longer this user's to change
    assert Path(folder.path).stat().st_mode & 0o7777 == 0o2770


def test_a_connection_in_the_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "locks.db").touch(0o666)
    (tmp_path / "locks.db").chmod(0o666)
    (tmp_path / "private").mkdir(0o700)
    (tmp_path / "locks.db-clients").symlink_to(tmp_path / "private")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        Folder(str(tmp_path / "locks.db")).make()
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700


def test_a_session_that_cannot_be_seen_or_told_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(str(tmp_path / "locks.db"))  # and there is no directory
    for session in ("a", "b"):
        LivenessLock(folder, session)
        Notifications(folder, session)
    said = [record.getMessage() for record in caplog.records if record.name == "recipes"]
    assert len(said) == 2
    assert "nobody will see at once when a process dies ([Errno 2]" in said[0]
    assert "waiters here are not notified, and look by themselves ([Errno 2]" in said[1]
