"""The demonstration: processes that share files, with a lock and without it.

``show`` runs it: two scenes (``scene``), a counter (``work``) and a bank (``bank``). It starts a ``crew`` of
``worker`` processes, and as many twins that do the same with no lock; ``play`` has them go on side by side.
What they tell is what a ``screen`` shows: lines, JSON, or a ``view`` that is a ``frame`` after the other of
the ``board`` that the messages add up to. The ``verdict`` is computed from what they left behind.
"""
