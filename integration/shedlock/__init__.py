"""``layout="shedlock"`` on real databases."""
