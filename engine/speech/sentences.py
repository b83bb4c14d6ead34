"""Sentences of a text that arrives in parts, so that each is spoken as soon as it is complete."""

import re
from typing import Final

_END: Final = re.compile(r"(?<=[.!?…])[\"')\]\u2019\u201d]*\s+|\n+")
_MAX_CHARS: Final = 300
"""Length at which a part without an end of a sentence is cut at a space."""


class SentenceBuffer:
    """Collects the parts of a text and returns its sentences."""

    def __init__(self) -> None:
        self._rest = ""

    def push(self, part: str) -> list[str]:
        """Add a part; return the sentences that are complete now. A sentence ends with a mark before a space."""
        self._rest += part
        sentences = []
        while (end := self._find_end()) is not None:
            sentences.append(self._rest[:end].strip())
            self._rest = self._rest[end:]
        return [sentence for sentence in sentences if sentence]

    def flush(self) -> list[str]:
        """Return the rest as the last sentence; empty if there is none."""
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []

    def _find_end(self) -> int | None:
        match = _END.search(self._rest)
        if match is not None and match.end() <= _MAX_CHARS:
            return match.end()
        if len(self._rest) < _MAX_CHARS:
            return None
        space = self._rest.rfind(" ", 1, _MAX_CHARS)
        return space if space > 0 else _MAX_CHARS
