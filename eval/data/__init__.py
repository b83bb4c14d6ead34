"""Samples of a split: loading, writing and the published data formats; without torch."""

from stepscope.eval.data.loading import read_samples

__all__ = ["read_samples"]
