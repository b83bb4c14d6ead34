"""The streaming controller: decisions, speculation and requests, without torch."""
