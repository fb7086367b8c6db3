"""The pictures of the concepts, made by running the package: ``python -m tests.docs.pictures docs/images``.

What is drawn is what the programs did. `session` explores the session keepalive loop, `queues` and
`handover` have the acquire programs stand in a queue, `paused` draws a run of real processes
that was recorded. ``test_pictures.py`` sees that the files are what the command makes.
"""

from __future__ import annotations

from tests.docs.pictures import clock, handover, paused, queues, session

__all__ = ["PICTURES"]

PICTURES = {
    "session.svg": session.picture,
    "session-clock.svg": clock.picture,
    "queue.svg": queues.lock,
    "queue-herd.svg": queues.herd,
    "queue-rwlock.svg": queues.rwlock,
    "handover.svg": handover.picture,
    "paused.svg": paused.picture,
}
"""Each file, and what draws it."""
