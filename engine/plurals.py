"""Numbers with their nouns in messages: one video, two videos."""


def format_count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 video`` or ``0 videos``.

    Args:
        number: The count, at least 0.
        singular: The noun for exactly one, alone or with its verb, such as ``video is``.
        plural: The noun for all other counts; ``singular`` with an ``s`` by default.
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
