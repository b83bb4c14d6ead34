"""A reviewed video in forms that other programs open."""
