"""``recipes ls``, ``who``, ``watch`` and ``break``: who holds a lock and who waits, as the store shows it."""
