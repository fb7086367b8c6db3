"""Green threads: with those of gevent a client works, with those of eventlet it cannot."""

from __future__ import annotations

import sys

__all__ = ["refuse_eventlet"]

_PARTS = ("select", "socket", "thread")


def refuse_eventlet() -> None:
    """Raise RuntimeError if eventlet has replaced what a client waits with: no thread would ever be woken."""
    patcher = sys.modules.get("eventlet.patcher")  # that it is there says nothing: etcd3gw imports it
    patched = [part for part in _PARTS if patcher is not None and patcher.is_monkey_patched(part)]
    if patched:
        raise RuntimeError(
            f"eventlet.monkey_patch() has replaced {', '.join(patched)} in this process, and eventlet has no "
            "select.poll, without which a client cannot wait: use locks in a process that eventlet does not "
            "patch, or gevent, whose monkey.patch_all() works"
        )
