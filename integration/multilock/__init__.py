"""Processes that acquire several locks at once, in whatever order comes to mind."""

NAMES = ("a", "b", "c", "d")
