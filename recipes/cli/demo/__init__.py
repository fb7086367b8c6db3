"""The demonstration: processes that share a file, with the lock and without it.

``show`` runs it. It starts a ``crew`` of ``worker`` processes, which do the ``work``; the
``screen`` prints what they tell, and the ``verdict`` is computed from what they left behind.
"""
