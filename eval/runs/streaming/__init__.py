"""Streaming of the videos of a split, from their frames to outputs."""
