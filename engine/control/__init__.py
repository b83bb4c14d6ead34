"""The streaming controller: decisions, speculative drafts and requests, without torch."""
