"""Redlock on five Redis servers that know nothing of each other."""
