"""The examples of ``docs/operating/production.md``, on servers set up as that page says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration import servers
from integration.credentials.servers import ROOT_PASSWORD, SENTINEL, SecureEtcd, SecureZooKeeper
from tests.docs.pages import ROOT

pytestmark = pytest.mark.measured

EXAMPLES = ROOT / "docs/examples"


@pytest.fixture
def etcd() -> Iterator[SecureEtcd]:
    with SecureEtcd("etcd-3.5", mutual=True) as server:
        yield server


def run(example: str, server: SecureEtcd | SecureZooKeeper, port: int) -> str:
    text = (EXAMPLES / example).read_text()
    text = text.replace(f"127.0.0.1:{port}", server.address).replace("/etc/app/ca.pem", server.authority.ca)
    text = text.replace("/etc/app/client.pem", server.options.get("tls_cert", ""))
    env = {**os.environ, "LOCKS_PASSWORD": SENTINEL}
    command = [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_for_etcd(etcd: SecureEtcd, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SENTINEL}\n")
    env = {
        **os.environ,
        "PATH": f"{servers.find_etcdctl().parent}{os.pathsep}{os.environ['PATH']}",
        "ETCDCTL_API": "3",
        "ETCDCTL_ENDPOINTS": f"https://{etcd.address}",
        "ETCDCTL_CACERT": etcd.authority.ca,
        "ETCDCTL_CERT": etcd.options["tls_cert"],
        "ETCDCTL_KEY": etcd.options["tls_cert"],
        "ETCDCTL_USER": f"root:{ROOT_PASSWORD}",
    }
    subprocess.run(
        ["sh", "-e", EXAMPLES / "production_role.sh"], cwd=tmp_path, env=env, check=True, timeout=60
    )
    said = run("production_etcd.py", etcd, 2379)
    assert said.startswith(f"<Client of etcds+grpc://{etcd.address}/app: session held>, token ")


@pytest.mark.long
def test_the_example_for_zookeeper() -> None:
    with SecureZooKeeper() as server:
        said = run("production_zookeeper.py", server, 2281)
    assert said.startswith(f"<Client of zookeepers://{server.address}/app: session held>, token ")
