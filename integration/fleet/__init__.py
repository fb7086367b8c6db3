"""Clients of other kinds beside ours, on the same locks: who excludes whom."""
