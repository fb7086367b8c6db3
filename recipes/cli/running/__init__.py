"""``recipes run``: a command that runs while a lock is held, and not a moment longer.

Three processes: ``recipes run`` holds the lock, its *guard* watches the clock, and the command is
the guard's child. Whichever is killed or stopped, one of the others ends what is left in time.
"""
