"""A holder that forks, and what parent and child find afterwards.

Run as ``python -m integration.faults.forker FACE URL SESSION_S NAME``. The parent stops itself
while the child is at work, so that whatever moves on its connections then was the
child's doing; it goes on when the child has told what it saw. Both findings are printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from integration.opening import opened, opened_in_tasks

BYTES_ACKED = 120  # where the kernel's struct tcp_info has it, as 64 bits


def connections() -> list[socket.socket]:
    """Return every TCP connection of this process, through descriptors of their own."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if entry.readlink().name.startswith("socket:"):
                found.append(socket.socket(fileno=os.dup(int(entry.name))))
        except OSError:
            continue
    return [sock for sock in found if sock.family == socket.AF_INET and sock.type == socket.SOCK_STREAM]


def moved(socks: list[socket.socket]) -> list[tuple[int, int]]:
    """Return the state of each connection, and how many bytes it has sent."""
    infos = [sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256) for sock in socks]
    return [(info[0], struct.unpack_from("=Q", info, BYTES_ACKED)[0]) for info in infos]


def stopped(pid: int) -> bool:
    """Whether a process is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def look(grant: Any) -> dict[str, Any]:
    """Return what a grant says without I/O."""
    return {"held": grant.held, "lost": grant.lost.is_set(), "reason": grant.lost_reason}


async def in_child(client: Any, grant: Any, name: str) -> dict[str, Any]:
    """Look, release (in vain), try the parent's lock, and hold another in a session of its own."""
    seen = look(grant)
    seen["verify"] = await maybe(grant.verify())
    seen["release"] = await maybe(grant.release())
    seen["grants"] = len(client.grants)
    seen["parents"] = await maybe(client.lock(name).try_acquire()) is not None
    other = await maybe(client.lock(f"{name} of the child").acquire(timeout=20))
    seen["own"] = await maybe(other.verify())
    seen["session"] = client.session.id
    await maybe(client.close())
    return seen


async def maybe(result: Any) -> Any:
    """Await what has to be awaited."""
    return await result if hasattr(result, "__await__") else result


def fork(client: Any, grant: Any, name: str) -> dict[str, Any]:
    """Fork, wait for the child, and return what it found."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            while not stopped(parent):
                os.sched_yield()
            socks = connections()
            before = moved(socks)
            seen = asyncio.run(in_child(client, grant, name))
            seen["moved"] = moved(socks) != before
            seen["connections"] = len(socks)
            os.write(writing, json.dumps(seen).encode())
            status = 0
        finally:
            os.kill(parent, signal.SIGCONT)
            os._exit(status)
    os.kill(parent, signal.SIGSTOP)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(told) if told else {"status": status}


def blocking(url: str, session_s: float, name: str) -> None:
    """Hold with a blocking client."""
    with opened(url, session_timeout=session_s) as client:
        grant = client.lock(name).acquire()
        print("ready", flush=True)
        print(json.dumps(fork(client, grant, name)), flush=True)
        sys.stdin.readline()
        mine = {**look(grant), "verify": grant.verify(), "session": client.session.id}
        mine["release"] = grant.release()
        print(json.dumps(mine), flush=True)


async def tasks(url: str, session_s: float, name: str) -> None:
    """Hold with an asyncio client."""
    async with await opened_in_tasks(url, session_timeout=session_s) as client:
        grant = await client.lock(name).acquire()
        print("ready", flush=True)
        print(json.dumps(fork(client, grant, name)), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        mine = {**look(grant), "verify": await grant.verify(), "session": client.session.id}
        mine["release"] = await grant.release()
        print(json.dumps(mine), flush=True)


if __name__ == "__main__":
    _, api, address, length, lock_name = sys.argv
    if api == "blocking":
        blocking(address, float(length), lock_name)
    else:
        asyncio.run(tasks(address, float(length), lock_name))
