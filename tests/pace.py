"""How late this machine wakes a thread that only sleeps: promises about time are measured against that.

"Returns within 0.25 s" is a promise of the code. On a busy machine every wake-up comes late besides, and no
fixed bound tells the two apart. `Pace` measures the second in the same span: a thread naps, and notes from
when to when it was overdue. A thread that computes is put off, too, and the scheduler favours those that
sleep; how long the process's threads were ready and did not run, the kernel says. On an idle machine both are
a few per cent of the span, so a late answer still fails.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Self

from recipes._run.clock import boot_time

__all__ = ["NAPPER", "Pace", "grown_s", "put_off", "taking"]

NAP_S = 0.005
NAPPER = "tests-pace"
_due_at, _woken_at = itemgetter(0), itemgetter(1)


def put_off(process: int | str = "self") -> dict[str, float]:
    """Return for how many seconds each thread of a process was ready and did not run; only Linux tells."""
    seen = {}
    threads: list[Path] = []
    with suppress(OSError):  # it has ended
        threads += Path(f"/proc/{process}/task").iterdir()
    for thread in threads:
        with suppress(OSError):
            seen[thread.name] = int((thread / "schedstat").read_bytes().split()[1]) / 1e9
    return seen


def grown_s(before: dict[str, float], after: dict[str, float]) -> float:
    """Return by how much `put_off` grew, all threads together; one that has ended takes nothing away."""
    return sum(max(0.0, late_s - before.get(thread, 0.0)) for thread, late_s in after.items())


class _Napper:
    """The thread that naps; ends when it is told to."""

    def __init__(self) -> None:
        self.overdue: list[tuple[float, float]] = []  # from when to when
        self.due_at = boot_time() + NAP_S
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._nap, name=NAPPER, daemon=True)
        self._thread.start()

    @property
    def thread_id(self) -> str:
        return str(self._thread.native_id)

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _nap(self) -> None:
        while not self._over.wait(NAP_S):
            woken_at = boot_time()
            self.overdue.append((self.due_at, woken_at))
            self.due_at = woken_at + NAP_S


class Pace:
    """Measures while it is open; a context manager. All that are open in a process share one thread."""

    _guard = threading.Lock()
    _open = 0
    _napper: _Napper | None = None

    def __enter__(self) -> Self:
        with Pace._guard:
            if not Pace._open:
                Pace._napper = _Napper()
            Pace._open += 1
            assert Pace._napper is not None
            self._mine = Pace._napper
        self._put_off = put_off()
        self._began_at = boot_time()
        return self

    def __exit__(self, *_: object) -> None:
        with Pace._guard:
            Pace._open -= 1
            if not Pace._open:
                self._mine.end()

    @property
    def seconds(self) -> float:
        """How long it has been open."""
        return boot_time() - self._began_at

    def late_s(self, since: float | None = None, until: float | None = None) -> float:
        """Return how late the machine was between two times of `boot_time`, in all.

        Since it was opened, that is for how long the thread was overdue and the others were put off; since
        any other time, only the former, as the kernel tells of now alone.
        """
        begin = self._began_at if since is None else since
        end = boot_time() if until is None else until
        late_s = max(0.0, end - max(begin, self._mine.due_at))  # of the nap that is not over
        naps = self._mine.overdue
        first, last = bisect_right(naps, begin, key=_woken_at), bisect_left(naps, end, key=_due_at)
        for due_at, woken_at in naps[first:last]:
            late_s += max(0.0, min(end, woken_at) - max(begin, due_at))
        return late_s if since is not None or until is not None else late_s + self._others_put_off_s()

    @property
    def thread_id(self) -> str:
        """By which `put_off` knows the thread that naps."""
        return self._mine.thread_id

    def stood_s(self, at_least_s: float) -> float:
        """Return for how long the thread was overdue, counting only what was as long as this at a time."""
        overdue = [*self._mine.overdue, (self._mine.due_at, boot_time())]
        spans = (woken_at - max(self._began_at, due_at) for due_at, woken_at in overdue)
        return sum(span_s for span_s in spans if span_s >= at_least_s)

    def _others_put_off_s(self) -> float:
        now = put_off()
        now.pop(self._mine.thread_id, None)
        return grown_s(self._put_off, now)


@contextmanager
def taking(at_most_s: float, at_least_s: float = 0.0, *, served_by: int | None = None) -> Iterator[None]:
    """See that the block takes no longer, but for what the machine adds, nor shorter.

    ``served_by`` is the process of the server that answers it: what the machine adds there counts too.
    """
    before = {} if served_by is None else put_off(served_by)
    with Pace() as pace:
        yield
        took_s, late_s = pace.seconds, pace.late_s()
    late_s += 0.0 if served_by is None else grown_s(before, put_off(served_by))
    assert took_s >= at_least_s, f"took {took_s:.3f} s, and should have taken {at_least_s} s at least"
    bound = f"{at_most_s} s at most, and the machine was {late_s:.3f} s late"
    assert took_s <= at_most_s + late_s, f"took {took_s:.3f} s, and should have taken {bound}"
