"""Locks of other programs on Redis, beside ours on one key."""
