"""The programs in Go and Java, compiled once for each state of their sources.

::

    python -m integration.fleet.building      # compile all, and tell where they are
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from integration.harness import finding
from integration.harness.process import ServerUnavailable

__all__ = [
    "EXAMPLES",
    "compile_go",
    "compile_java",
    "curator_program",
    "embedded_classes",
    "go_program",
    "main",
]

HERE = Path(__file__).parent
HARNESS = HERE.parent / "harness"
EXAMPLES = HERE.parents[1] / "docs/examples"
COMPILE_WITHIN_S = 300


def main() -> int:
    """Compile what is missing, before any test's time is measured; 1 if that cannot be in CI."""
    missing = 0
    builds: tuple[Callable[[], list[str]], ...] = (
        lambda: go_program("mutex"),
        lambda: curator_program("Fleet"),
        lambda: [str(embedded_classes())],
    )
    for build in builds:
        try:
            print("integration: built", " ".join(build()), flush=True)
        except ServerUnavailable as reason:
            missing += 1
            print("integration: MISSING:", reason, flush=True)
    return int(bool(missing and os.environ.get("CI")))


def go_program(name: str, source: Path = HERE / "go") -> list[str]:
    """Return the command that runs the program in a folder, with Go's etcd client.

    Raises:
        ServerUnavailable: There is no Go, or none of its etcd client.
    """
    go = finding.find_go()
    files = sorted(source.glob("*.go"))
    folder = _built(f"go-{name}", files, str(go), lambda folder: compile_go(go, files, folder / name))
    return [str(folder / name)]


def curator_program(name: str, source: Path = HERE / "java") -> list[str]:
    """Return the command that runs the program in a folder, with Curator and the examples of the docs.

    Raises:
        ServerUnavailable: There is no JDK, or no Curator.
    """
    java = finding.find_curator()
    files = sorted({*source.glob("*.java"), EXAMPLES / "SharedLockDriver.java"})
    folder = _built(f"java-{name}", files, str(java), lambda folder: compile_java(java, files, folder))
    small = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [java.runtime, *small, "-cp", f"{java.classpath}{os.pathsep}{folder}", name]


def embedded_classes() -> Path:
    """Return the folder with the ZooKeeper server that can be told what no client can ask.

    Raises:
        ServerUnavailable: There is no JDK, or no ZooKeeper.
    """
    zookeeper = finding.find_zookeeper()
    java = finding.Javac(finding.find_curator().compiler, zookeeper.binary, zookeeper.classpath)
    files = [HARNESS / "java/Embedded.java"]
    return _built("java-Embedded", files, str(java), lambda folder: compile_java(java, files, folder))


def compile_go(go: finding.Go, sources: Sequence[Path], target: Path) -> None:
    """Compile files into the program ``target``."""
    environment = {"GO111MODULE": "off", "GOPATH": go.path, "GOFLAGS": ""}
    _run([go.binary, "build", "-o", str(target), *map(str, sources)], environment)


def compile_java(java: finding.Javac, sources: Sequence[Path], folder: Path) -> None:
    """Compile files into classes below ``folder``."""
    _run([java.compiler, "-nowarn", "-cp", java.classpath, "-d", str(folder), *map(str, sources)], {})


def _built(label: str, files: Iterable[Path], tool: str, compiled: Callable[[Path], None]) -> Path:
    """Return the folder of what was compiled from these very sources; complete or not at all."""
    mark = hashlib.sha256(tool.encode())
    for file in files:
        mark.update(file.read_bytes())
    folder = _cache() / f"{label}-{mark.hexdigest()[:16]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            fresh = Path(place, "built")
            fresh.mkdir()
            compiled(fresh)
            try:
                fresh.rename(folder)
            except OSError:  # somebody else was faster, with the same sources
                assert folder.exists()
    return folder


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    """Compile; sources that do not compile are a mistake, not something missing."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMPILE_WITHIN_S,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root, "coordination-recipes", "fleet")


if __name__ == "__main__":
    sys.exit(main())
