"""What was found out about some code stays true while only other files change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.revision import revision


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    return subprocess.run(
        ["git", *who, *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit(root: Path, file: str, text: str) -> str:
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(text)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", text)
    return git(root, "log", "-1", "--format=%h")


def test_a_revision_is_the_last_commit_that_changed_these_folders(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    package = commit(tmp_path, "package/one.py", "1")
    docs = commit(tmp_path, "docs/page.md", "1")
    assert revision("package", root=tmp_path) == package
    assert revision("package", "docs", root=tmp_path) == docs
    (tmp_path / "docs/page.md").write_text("2")
    assert revision("package", root=tmp_path) == package
    assert revision("docs", root=tmp_path) == f"{docs}+"
    (tmp_path / "package/new.py").write_text("not committed")
    assert revision("package", root=tmp_path) == f"{package}+"


def test_without_a_repository_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert revision("package", root=tmp_path) == "unknown"
