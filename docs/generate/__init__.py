"""Writes what the pages say of the code: ``python -m docs.generate``; the tests compare it."""
