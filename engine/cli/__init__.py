"""Command lines: options as dataclasses, and the commands of the engine."""
