"""Comparison of a checkpoint, as a stream uses it, with transformers' own processor, forward and ``generate``."""
