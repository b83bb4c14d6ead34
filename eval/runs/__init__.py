"""Batch runs of a split: run folders, the scheduler with its worker pools, and imported results."""
