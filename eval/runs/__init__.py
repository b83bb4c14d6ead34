"""Batch runs of a split: run folders, workers, and imported results."""
