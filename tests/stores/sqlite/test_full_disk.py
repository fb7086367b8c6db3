"""Fault 21: on a full disk nobody joins a queue, and who holds goes on renewing and can let go."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import StoreFull
from tests.pace import taking
from tests.stores.sqlite.connecting import queued, renew

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="NOT TESTED: mounting a small disk needs root"
)
CYCLES = 150


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mounted)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: mounting a small disk is not allowed here")
    yield mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def fill(disk: Path) -> Path:
    """Leave not a byte."""
    file = disk / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65536, 4096, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                pass
    return file


def test_acquire_is_refused_at_once_and_what_is_held_can_be_kept_and_released(disk: Path) -> None:
    url = f"sqlite://{disk}/locks.db"
    with recipes.connect(url, session_timeout=3) as client, recipes.connect(url) as other:
        grants = [client.lock(f"x{number}").acquire() for number in range(CYCLES)]
        waiter = other.lock("x0")
        filler = fill(disk)
        with taking(2):  # of the five seconds that it may take
            with pytest.raises(StoreFull, match=r"is full: the disk is full.*free space there"):
                client.lock("y").acquire(timeout=5)
            with pytest.raises(StoreFull):
                waiter.try_acquire()
        time.sleep(3.3)  # several renewals, and past the TTL
        assert all(grant.held and grant.verify() for grant in grants)
        assert all(grant.release() for grant in grants)
        filler.unlink()
        assert waiter.acquire(timeout=5).token > grants[-1].token


def test_a_waiter_who_queued_before_the_disk_was_full_is_served(disk: Path) -> None:
    url = f"sqlite://{disk}/locks.db"
    with recipes.connect(url) as holder, recipes.connect(url) as waiter:
        grant = holder.lock("x").acquire()
        found: list[bool] = []

        def wait() -> None:
            found.append(waiter.lock("x").acquire(timeout=10).held)

        thread = threading.Thread(target=wait)
        with queued():
            thread.start()
        fill(disk)
        assert grant.release()
        thread.join(5)
        assert found == [True]


def test_long_after_the_log_was_to_begin_again(disk: Path) -> None:
    url = f"sqlite://{disk}/locks.db"
    with recipes.connect(url) as client:
        grant = client.lock("x").acquire()
        fill(disk)
        connection: Any = client._runtime.state.session.connection  # type: ignore[union-attr]
        for _ in range(1000):  # renewals: far more than the log has room for
            connection.ask(renew(client.session.id or ""), 1.0)
        assert grant.verify()
        assert grant.release()


def test_a_disk_that_is_full_from_the_start(disk: Path) -> None:
    fill(disk)
    with pytest.raises(StoreFull):
        recipes.connect(f"sqlite://{disk}/locks.db").open()


def test_a_client_may_close_and_another_may_not_open(disk: Path) -> None:
    url = f"sqlite://{disk}/locks.db"
    with recipes.connect(url) as client:
        client.lock("x").acquire()
        fill(disk)
        other = recipes.connect(url)
        with pytest.raises(StoreFull):
            other.open()
        other.close()
    assert client.session.state == "closed"
