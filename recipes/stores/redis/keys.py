"""Where a queue, a value and a session are: the names of keys, and which of them share a slot.

With the prefix ``lock:`` the lock ``reports`` is the key ``lock:reports``, as other libraries name it too,
and what else belongs to it is in the same slot: ``{lock:reports}:queue``. A prefix with a hash tag of its
own (``{app}:``) puts everything into one slot of a cluster.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

from recipes._contract.names import encode

__all__ = ["Keys"]

MOST_KNOWN = 1000


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._one_slot = _tagged(prefix)
        self.bell = f"{prefix}~bell:"
        self.grace = f"{prefix}~grace"
        self.life = f"{prefix}~life"
        self.redlock_grace = f"{prefix}~redlock-grace"  # in milliseconds; the other may be on the same server
        self._known = lru_cache(MOST_KNOWN)(self._made)  # each act names them
        self.queues = f"{_plain(prefix)}*:queue" if self._one_slot else f"{{{_plain(prefix)}*}}:queue"

    def session(self, session: str) -> str:
        """Return the key that says that a session lives."""
        return f"{self.prefix}~session:{session}"

    def of(self, queue: str) -> tuple[str, ...]:
        """Return the five keys of a queue, as the script takes them; the first is what others may write."""
        return self._known(queue)[1]

    def base(self, queue: str) -> str:
        """Return the key that names the holder: the name as it is, if no other key looks like that."""
        return self._known(queue)[1][0]

    def beside(self, queue: str, what: str) -> str:
        """Return another key of the slot in which that one is."""
        return self._known(queue)[0] + what

    def together(self, *queues: str) -> bool:
        """Whether everything of these queues is in one slot of a cluster."""
        return self._one_slot or len({self.base(queue) for queue in queues}) == 1

    def _made(self, queue: str) -> tuple[str, tuple[str, ...]]:
        """Return what the keys beside the first begin with, and the five."""
        name = queue if queue.startswith("~") else unquote(queue)
        odd = ":{}%" if self._one_slot else "{}%"
        if not queue.startswith("~") and (name.startswith("~") or any(one in name for one in odd)):
            name = queue
        base = self.prefix + name
        stem = f"{base}:" if self._one_slot else f"{{{base}}}:"
        return stem, (base, *(stem + what for what in ("queue", "exclusive", "known", "watched")))

    def queue_of(self, key: str) -> str:
        """Return the queue whose tokens are at this key, as `queues` finds it; empty if it is of none."""
        base = key.removesuffix(":queue")
        if not self._one_slot:
            base = base[1:-1]
        name = base.removeprefix(self.prefix)
        if name.startswith("~") or "%" in name:
            return name
        try:
            return encode(name)
        except ValueError:  # it is another program's
            return ""


def _tagged(prefix: str) -> bool:
    start = prefix.find("{")
    return start >= 0 and prefix.find("}", start) > start + 1


def _plain(text: str) -> str:
    """Return a pattern that only this text matches."""
    return "".join(f"\\{one}" if one in "*?[]\\^" else one for one in text)
