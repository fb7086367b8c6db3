"""The command line as users have it: in pipes, on a terminal, and on stores that fail."""
