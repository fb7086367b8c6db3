"""A PostgreSQL server, which refuses to run as root: it then runs as a user that has less to lose."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration.harness.process import Server, ServerUnavailable
from integration.harness.throwaway import free_ports

__all__ = ["Postgres"]

USERS = ("postgres", "nobody")
"""Whom a server of root's runs as: the first there is."""


class Postgres(Server):
    """One PostgreSQL on loopback, with durability given up for speed; its superuser needs no password."""

    scheme = "postgresql"

    def __init__(self, label: str, programs: Path) -> None:
        super().__init__(label, *free_ports(1))
        self.programs = programs
        self.data = self.home / "data"
        self._user = _unprivileged() if os.geteuid() == 0 else None

    def prepare(self) -> None:
        if self.data.exists():
            return
        if self._user is not None:
            os.chown(self.home, self._user.pw_uid, self._user.pw_gid)
        initdb = [self.programs / "initdb", "--no-sync", "--auth=trust", "--username=postgres"]
        words = [*map(str, initdb), "--locale=C", "--encoding=UTF8", "--pgdata", str(self.data)]
        done = subprocess.run(
            [*self._demoted(), *words], capture_output=True, text=True, timeout=60, cwd=self.home, check=False
        )
        if done.returncode:
            raise ServerUnavailable(f"initdb failed: {done.stderr.strip()}")

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
            "max_connections": "50",
            "dynamic_shared_memory_type": "mmap",  # in the data directory, where it goes with the rest
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # A change of user drops the tether, so it is said again: with SIGINT, to leave no memory behind.
        tether = [*self._demoted(), "--pdeathsig", "INT"] if self._user is not None else []
        return [*tether, str(self.programs / "postgres"), "-D", str(self.data), *options]

    def healthy(self) -> bool:
        """Whether it answers (no, to a request for TLS), and has said that it is ready."""
        request = (8).to_bytes(4) + (80877103).to_bytes(4)
        try:
            with socket.create_connection((self.host, self.port), 0.5) as connection:
                connection.sendall(request)
                return connection.recv(1) in (b"N", b"S") and "ready to accept" in self.log_path.read_text()
        except OSError:
            return False

    def version(self) -> str:
        said = subprocess.run(
            [self.programs / "postgres", "--version"], capture_output=True, text=True, timeout=20, check=True
        )
        return said.stdout.split()[2]

    def url(self, prefix: str = "postgres") -> str:
        """Return the URL of one database, as libpq and psycopg take it."""
        return f"postgresql://postgres@{self.address}/{prefix}"

    def kill(self) -> None:
        """End the server, fast but in good order: killed, it would leave shared memory behind."""
        if self._process is not None:
            self._signal(signal.SIGINT)
            self.resume()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        super().kill()

    def _demoted(self) -> list[str]:
        """Return what runs a command as the user, if it has to be another."""
        if self._user is None:
            return []
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise ServerUnavailable("PostgreSQL does not run as root, and there is no setpriv to change user")
        return [setpriv, f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups"]


def _unprivileged() -> pwd.struct_passwd:
    for name in USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerUnavailable(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody"
    )
