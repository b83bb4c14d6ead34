"""Synthetic scenes: toys that a hand builds, their annotations, and the pictures of their frames."""
