"""Items shared among processes that come, go, are killed and stopped; a register for each item fences."""
