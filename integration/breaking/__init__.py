"""Processes of which one system call fails, each in turn."""
