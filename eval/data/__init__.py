"""Samples of a split: loading, writing and the published data formats."""
