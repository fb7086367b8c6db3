"""Measurements: this package and its peers, side by side in one run."""
