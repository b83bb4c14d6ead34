"""The vocabulary of a split: the tags and causes that its reviewers choose from, in a file beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stepscope.engine.io.json_records import read_record, short_repr

CAUSE_PREFIX: Final = "cause:"
"""Beginning of a tag with which a reviewer names a cause, such as ``cause:decoy``."""
ENDING: Final = ".vocabulary.json"
_MAX_NAMES: Final = 60
_MAX_NAME_CHARS: Final = 40
_MAX_MEANING_CHARS: Final = 200
_MAX_FILE_BYTES: Final = 2**17
"""Largest file that is read; the longest vocabulary needs less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Meanings by name, in the order of the file. Raises ``ValueError`` for an invalid name."""

    tags: Mapping[str, str] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind, meanings in (("tags", self.tags), ("causes", self.causes)):
            if len(meanings) > _MAX_NAMES:
                raise ValueError(f"{kind} has more than {_MAX_NAMES} names")
            for name, meaning in meanings.items():
                if not _is_name(name):
                    rule = f"1 to {_MAX_NAME_CHARS} printable characters without comma, quote, colon or outer blank"
                    raise ValueError(f"{kind}: a name has {rule}; got {short_repr(name)}")
                if len(meaning) > _MAX_MEANING_CHARS:
                    raise ValueError(f"{kind}.{name} has at most {_MAX_MEANING_CHARS} characters; got {len(meaning)}")

    @property
    def traits(self) -> tuple[str, ...]:
        """The names as traits of videos, such as ``tag: blurry`` and ``cause: decoy``."""
        return (*(f"tag: {name}" for name in self.tags), *(f"cause: {name}" for name in self.causes))


def read_vocabulary(split: Path) -> Vocabulary:
    """Return the vocabulary of a split's file: of ``test.json`` that in ``test.vocabulary.json``, else an empty one.

    Raises ``ValueError`` with one sentence for a file that cannot be used.
    """
    path = split.with_suffix(ENDING)
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(f"{path} is larger than {_MAX_FILE_BYTES // 1024} KiB; shorten it")
        return read_record(Vocabulary, path)
    except FileNotFoundError:
        return Vocabulary()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _is_name(text: str) -> bool:
    is_plain = text.isprintable() and text == text.strip() and not set(',":') & set(text)
    return is_plain and 0 < len(text) <= _MAX_NAME_CHARS
