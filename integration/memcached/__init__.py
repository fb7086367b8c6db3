"""Memcached: the contract's part for stores with one holder and no queue, what fails, and who shares."""
