"""Who is alive: the lock that the kernel drops, seen from another process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recipes.stores.sqlite import lifeline
from recipes.stores.sqlite.lifeline import Folder, Lifeline
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
        "import sys; from recipes.stores.sqlite.lifeline import Folder\n"
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
    one = Lifeline(folder, "a")
    assert elsewhere(folder, "a") == ([], True)
    assert (folder.dead(["a"]), folder.living(["a"])) == ([], True)
    assert elsewhere(folder, "a") == ([], True)  # looking at it here has not dropped it
    one.drop()
    one.drop()
    assert elsewhere(folder, "a") == (["a"], False)
    assert folder.dead(["a", "a"]) == ["a"]


def test_of_a_session_without_a_lock_nothing_is_known(folder: Folder) -> None:
    assert (folder.dead(["nobody"]), folder.living(["nobody"])) == ([], False)


def test_a_forked_child_keeps_no_session_of_its_parents_alive(folder: Folder) -> None:
    one = Lifeline(folder, "a")
    seen = in_child(lambda: [folder.dead(["a"]), folder.living(["a"])])
    assert seen == [[], True]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    one.drop()  # as the death of this process would, while its child lives on
    assert elsewhere(folder, "a") == (["a"], False)
    os.write(writing, b".")
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


def test_what_nobody_knows_and_nobody_keeps_is_removed(folder: Folder) -> None:
    kept = Lifeline(folder, "kept")
    for session in ("known", "left"):
        Path(folder.lock_of(session)).touch()
        Path(folder.address_of(session)).touch()
    folder.tidy(["known"])
    assert names(folder.path) == ["kept.lock", "known.lock", "known.sock"]
    kept.drop()
    folder.forget(["known", "kept", "nobody"])
    assert names(folder.path) == []


def test_a_file_that_was_removed_before_it_was_locked_is_made_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = fcntl.lockf, []

    def remove_first(descriptor: int, how: int) -> Any:
        if not removed:
            removed.append(Path(folder.lock_of("a")).unlink())
        return real(descriptor, how)

    monkeypatch.setattr(fcntl, "lockf", remove_first)
    one = Lifeline(folder, "a")
    monkeypatch.undo()
    assert elsewhere(folder, "a") == ([], True)
    one.drop()


def test_a_lock_that_cannot_be_had_leaves_it_unknown(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(descriptor: int, how: int) -> None:
        raise BlockingIOError(11, "held")

    monkeypatch.setattr(fcntl, "lockf", busy)
    files = len(names("/proc/self/fd"))
    Lifeline(folder, "a")
    assert len(names("/proc/self/fd")) == files
    assert "a" not in lifeline._mine
    assert folder.living(["a"])  # somebody has it

    def unsupported(descriptor: int, how: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "lockf", unsupported)
    Lifeline(folder, "b")
    assert (folder.dead(["b"]), folder.living(["b"])) == ([], False)


@pytest.mark.parametrize(("file", "wanted"), [(0o600, 0o700), (0o660, 0o770), (0o666, 0o777), (0o644, 0o700)])
def test_who_may_write_the_file_may_use_the_directory(tmp_path: Path, file: int, wanted: int) -> None:
    database = tmp_path / "locks.db"
    database.touch()
    database.chmod(file)
    folder = Folder(str(database))
    folder.make()
    folder.make()
    assert Path(folder.path).stat().st_mode & 0o777 == wanted
    one = Lifeline(folder, "a")
    assert Path(folder.lock_of("a")).stat().st_mode & 0o777 == wanted & 0o666
    one.drop()
