"""Annotated data sets: their files become segments, and the segments of a video become a sample; without torch."""
