"""The first steps on etcd and on ZooKeeper, as a newcomer types them, with a server started as pages say."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.harness import finding
from integration.harness.throwaway import free_ports, tethered
from integration.needing import needed
from integration.test_docs import ROOT
from tests.docs.pages import commands

pytestmark = pytest.mark.measured

EXAMPLES = ROOT / "docs/examples"
SCRIPTS = Path("/usr/share/zookeeper/bin")
"""Where Debian puts ZooKeeper's scripts, if they are installed."""


def test_the_first_steps_on_etcd(tmp_path: Path) -> None:
    port, peers = free_ports(2)
    etcd = needed("etcd-3.5", finding.find_etcd_35)
    etcdctl = needed("etcdctl", finding.find_etcdctl)
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    told = {
        "ETCD_LISTEN_CLIENT_URLS": client,
        "ETCD_ADVERTISE_CLIENT_URLS": client,
        "ETCD_LISTEN_PEER_URLS": peer,
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer,
        "ETCD_INITIAL_CLUSTER": f"default={peer}",
        "ETCDCTL_ENDPOINTS": f"127.0.0.1:{port}",
        "ETCDCTL_API": "3",
    }
    newcomer = Newcomer(tmp_path, f"127.0.0.1:{port}", "127.0.0.1:2379", told)
    newcomer.has("etcd", [str(etcd)])
    newcomer.has("etcdctl", [str(etcdctl)])
    with newcomer.serving("etcd_server.sh"):
        assert "100 visits of 100" in newcomer.types("etcd_move.sh")
        said = newcomer.types("etcd_look.sh")
    assert "app/reports%2Fnightly/W-" in said
    assert "reports/nightly" in said
    assert "and now etcdctl has it" in said


def test_the_first_steps_on_zookeeper(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    java = needed("zookeeper-3.8", finding.find_zookeeper)
    newcomer = Newcomer(tmp_path, f"127.0.0.1:{port}", "127.0.0.1:2181", {})
    plain = [java.binary, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", java.classpath]
    if not (SCRIPTS / "zkServer.sh").exists():  # the jars alone: what the scripts do with these arguments
        main = "org.apache.zookeeper"
        newcomer.has("zkServer.sh", [*plain, f"{main}.server.quorum.QuorumPeerMain"], skip=1)
        newcomer.has("zkCli.sh", [*plain, f"{main}.ZooKeeperMain"])
    with newcomer.serving("zookeeper_server.sh"):
        assert "100 visits of 100" in newcomer.types("zookeeper_move.sh")
        said = newcomer.types("zookeeper_look.sh")
    assert "exclusive" in said
    assert "-lock-0000000000" in said.splitlines()[-1]


class Newcomer:
    """Somebody with a directory, the files of the pages in it, and a shell.

    Args:
        folder: The directory.
        address: Where the server is to listen.
        said: What the pages say instead.
        told: What else the environment says, so that servers of several tests do not meet.
    """

    def __init__(self, folder: Path, address: str, said: str, told: dict[str, str]) -> None:
        self.folder = folder
        self._address, self._said = address, said
        self._env = os.environ | commands(folder / "bin") | told
        self._env["PATH"] += f"{os.pathsep}{SCRIPTS}"
        shutil.copy(EXAMPLES / "first_lock.py", folder)

    def has(self, name: str, command: list[str], *, skip: int = 0) -> None:
        """Have a command of that name, which drops its first arguments."""
        script = self.folder / "bin" / name
        script.write_text(f'#!/bin/sh\nshift {skip}\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)

    @contextlib.contextmanager
    def serving(self, example: str) -> Iterator[None]:
        """Run the server of an example meanwhile."""
        command = tethered(["bash", "-euc", self._text(example)])
        with (self.folder / "server.log").open("wb") as log:
            shell = subprocess.Popen(
                command, cwd=self.folder, env=self._env, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()

    def types(self, example: str) -> str:
        """Run an example of the command line; returns what is seen."""
        done = subprocess.run(
            ["bash", "-euc", self._text(example)],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr + (self.folder / "server.log").read_text()
        return done.stdout

    def _text(self, example: str) -> str:
        text = (EXAMPLES / example).read_text().replace(self._said, self._address)
        return text.replace(f"={self._said[-4:]}\n", f"={self._address.rpartition(':')[2]}\n")
