"""Clusters of three: members die, fall silent, are cut off, and come back (see integration/README.md)."""
