"""The examples of the documentation in Go and Java: compiled, and run beside a holder of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from integration.fleet.building import EXAMPLES, compile_go, compile_java
from integration.fleet.meeting import Ground
from integration.fleet.peers import PATIENCE_S
from integration.harness import finding

pytestmark = pytest.mark.measured

NAME = "reports/nightly"


def test_the_example_in_go(on_etcd: Ground, tmp_path: Path) -> None:
    source = tmp_path / "beside_go.go"
    source.write_text(text_on("beside_go.go", on_etcd, "127.0.0.1:2379"))
    go = finding.find_go()
    compile_go(go, [source], tmp_path / "beside")
    beside_ours(on_etcd, [str(tmp_path / "beside")], "held by Go under token")


def test_the_example_with_curator(on_zookeeper: Ground, tmp_path: Path) -> None:
    source = tmp_path / "BesideCurator.java"
    source.write_text(text_on("BesideCurator.java", on_zookeeper, "127.0.0.1:2181"))
    java = finding.find_curator()
    compile_java(java, [source], tmp_path)
    command = [java.runtime, "-cp", f"{java.classpath}{os.pathsep}{tmp_path}", "BesideCurator"]
    beside_ours(on_zookeeper, command, "held by Curator under token")


def test_the_examples_name_the_lock_as_we_do(on_etcd: Ground, on_zookeeper: Ground) -> None:
    assert on_etcd.path(NAME).endswith("/reports%2Fnightly")
    assert on_zookeeper.path(NAME) == f"/{on_zookeeper.store.prefix}/reports%2Fnightly"


def text_on(example: str, ground: Ground, address: str) -> str:
    """Return an example with its server's address, and its root, replaced."""
    text = (EXAMPLES / example).read_text()
    assert text.count(address) == text.count("app/") == 1
    return text.replace(address, ground.server.address).replace("app/", f"{ground.store.prefix}/")


def beside_ours(ground: Ground, command: list[str], says: str) -> None:
    """See that it waits while ours holds, and then holds under a later token."""
    grant = ground.ours("Lock", NAME).acquire(timeout=PATIENCE_S)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ground.queued(NAME, 2)
        assert process.poll() is None
        assert grant.release()
        said, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert said.startswith(says)
    assert int(said.split()[-1]) > grant.token
    ground.queued(NAME, 0)
