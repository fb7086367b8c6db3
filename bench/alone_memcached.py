"""What a free lock on a Memcached costs beside the two round trips that it needs, by a raw socket.

::

    python -m bench.alone_memcached [cycles]
"""

from __future__ import annotations

import itertools
import socket
import statistics
import sys
import time
from collections.abc import Callable

import recipes
from integration import servers

__all__ = ["main"]

CYCLES = 2_000
VALUE = b"v" * 53
"""As long as what names a holder."""


def floor(server: servers.Memcached) -> Callable[[], None]:
    """Return what adds an item, and deletes it by its count."""
    sock = socket.create_connection((server.host, server.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cycle() -> None:
        sock.sendall(b"ms floor:x %d T17 ME c\r\n%b\r\n" % (len(VALUE), VALUE))
        code, count = sock.recv(4096).split()
        assert code == b"HD", "it should be free"
        sock.sendall(b"md floor:x C%b\r\n" % count[1:])
        assert sock.recv(4096) == b"HD\r\n"

    return cycle


def main() -> None:
    """Measure both in turn, by the wall and by the CPU of the thread, and print medians."""
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else CYCLES
    with servers.memcached().start() as server:
        server.wait_granting()
        with recipes.connect(server.url("bench"), restart_grace=0) as client:
            lock, raw = client.lock("x"), floor(server)
            subjects: list[Callable[[], object]] = [raw, lambda: lock.acquire().release()]
            took: list[list[tuple[float, float]]] = [[], []]
            for number, place in itertools.product(range(cycles + cycles // 10), (0, 1)):
                wall, cpu = time.perf_counter(), time.thread_time()
                subjects[place]()
                done = time.perf_counter() - wall, time.thread_time() - cpu
                if number >= cycles // 10:  # the first ones warm up
                    took[place].append(done)
    (raw_us, raw_cpu_us), (ours_us, ours_cpu_us) = (
        [statistics.median(column) * 1e6 for column in zip(*one, strict=True)] for one in took
    )
    print(
        f"floor: {raw_us:.0f} us, CPU {raw_cpu_us:.0f} us; ours: {ours_us:.0f} us, CPU {ours_cpu_us:.0f} us"
    )
    print(f"ours takes {ours_us / raw_us:.1f} times the floor")


if __name__ == "__main__":
    main()
