"""A crowd of readers and writers in several processes, and what they share beside the lock."""
