"""Frames as the model sees them: encoded by the vision tower, pooled over videos, and kept in files."""
