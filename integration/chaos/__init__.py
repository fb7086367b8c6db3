"""Clients as processes on real servers, under faults drawn from a seed, whose histories are checked."""
