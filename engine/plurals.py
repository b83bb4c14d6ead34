"""Numbers with their nouns in messages: one video, two videos."""


def format_count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 video`` or ``0 videos``.

    ``singular`` is for exactly one, alone or with its verb, such as ``video is``; ``plural`` is by default it with an
    ``s``.
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"


def format_memory(size_mb: float) -> str:
    """Return a size in MiB as text, such as ``512.0 MiB`` or ``4.7 GiB``."""
    return f"{size_mb / 1024:,.1f} GiB" if size_mb >= 1024 else f"{size_mb:,.1f} MiB"
