"""Numbers with their nouns in messages: one video, two videos."""


def format_count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 video`` or ``0 videos``.

    ``singular`` is for exactly one, alone or with its verb, such as ``video is``; ``plural`` is by default it with an
    ``s``.
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
