"""Databases that restart, fail over, run full and stand still, with clients that hold locks there."""
