"""The model servers of the simulation held to the real ones: the same scripts, every reply compared."""
