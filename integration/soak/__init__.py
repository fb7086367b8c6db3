"""Clients with every recipe at once, for long, under a fault now and then: what grows is a leak."""
