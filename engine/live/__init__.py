"""Streaming from sources without an end: cameras, network streams, and files in real time."""
