"""Faults on real servers: each test is a row of the fault matrix (see integration/README.md)."""
