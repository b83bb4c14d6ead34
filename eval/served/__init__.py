"""Clients of served models: videos are streamed to an endpoint, and its answers are recorded as a run."""
