"""The demonstration: processes that share files, with a lock and without it.

``command`` runs it: a ``crew`` of ``worker`` processes plays the ``scenes``, and writes events as JSON lines.
What the ``screen`` shows and the ``verdict`` says is computed from these by `recipes.cli.history`.
"""
