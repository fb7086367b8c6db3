"""Other clients under the faults that ours withstand: what is observed of each."""
