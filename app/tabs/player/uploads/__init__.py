"""Uploads of the player: a video, its reference, and the result of another system in it."""
