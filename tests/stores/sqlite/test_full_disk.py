"""Fault 21: on a full disk nobody joins a queue, and who holds goes on renewing and can let go."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import StoreFull
from recipes._contract.operations import Write
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchange
from tests.pace import taking
from tests.stores.sqlite.connecting import command, queued, renew

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
    with recipes.connect(url, session_timeout=6) as client, recipes.connect(url) as other:
        grants = [client.lock(f"x{number}").acquire() for number in range(CYCLES)]
        waiter = other.lock("x0")
        filler = fill(disk)
        with taking(2):  # of the five seconds that it may take
            with pytest.raises(StoreFull, match=r"is full: the disk is full.*free space there"):
                client.lock("y").acquire(timeout=5)
            with pytest.raises(StoreFull):
                waiter.try_acquire()
        time.sleep(6.6)  # several renewals, and past the TTL
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


def test_a_value_is_not_written_on_a_full_disk_and_can_be_read_and_deleted(disk: Path) -> None:
    with recipes.connect(f"sqlite://{disk}/locks.db") as client:
        value, counter = client.value("x"), client.counter("n")
        value.set(b"x" * 1000)
        counter.add()
        filler = fill(disk)
        for act in (lambda: value.set(b"new"), counter.add):
            with taking(2), pytest.raises(StoreFull, match="the disk is full"):
                act()
        found = value.get()
        assert found is not None
        assert found.data == b"x" * 1000
        assert counter.get() == 1
        assert value.delete()
        filler.unlink()
        value.set(b"new")
        assert counter.add() == 2


def test_what_was_given_up_is_settled_on_a_full_disk(disk: Path) -> None:
    """Each of them a receipt that was not there before; and what it settles comes late."""
    with recipes.connect(f"sqlite://{disk}/locks.db") as client:
        client.value("x").set(b"x")
        fill(disk)
        session: Any = client._runtime.state.session
        for number in range(CYCLES):
            key = f"~value/{number}"
            settled = Put(Exchange(Write(key, b"late", number), 0, b"", settles=True))
            assert session.connection.ask(command(session.id, settled), 1.0).done
            late = Put(Exchange(Write(key, None, number), 0, b"1"))  # which takes no room, and would land
            assert not session.connection.ask(command(session.id, late), 1.0).done


def test_a_value_that_does_not_fit_is_refused_and_leaves_the_room_to_others(disk: Path) -> None:
    with recipes.connect(f"sqlite://{disk}/locks.db") as client:
        free = shutil.disk_usage(disk).free
        with taking(2), pytest.raises(StoreFull, match="the disk is full"):
            client.value("x").set(b"x" * 1_000_000)
        assert shutil.disk_usage(disk).free == free
        client.value("x").set(b"x" * 100_000)
        assert client.lock("x").acquire(timeout=5).release()


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
