"""The test kit: a store in memory whose time, answers and sessions are in the hand of a test.

::

    from recipes import testing

    def test_the_job_stops_when_its_lock_is_lost():
        with testing.Store() as store:
            service = Service(store.url)             # which calls recipes.connect() itself
            service.start()
            with store.pause(service.client):        # nothing it sends is answered
                store.clock.advance(15)              # takes no time
            assert service.stopped.wait(5)

The clients are real ones, blocking and asyncio: the package's own sessions, queues and
grants run on a store that keeps the order of contenders, binds them to sessions and ends
sessions as the others do. What differs is time: it stands still until `Clock.advance`
moves it, for the store and all its clients. So nothing waits for real, and a test runs
the same each time.
"""

from __future__ import annotations

from recipes.testing.clock import Clock
from recipes.testing.faults import Operation
from recipes.testing.store import Contender, Store

__all__ = ["Clock", "Contender", "Operation", "Store"]
