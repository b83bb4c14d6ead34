"""A sentence encoder as scores use it, without its library, whose import takes seconds."""

from dataclasses import dataclass

from stepscope.engine.imports import import_uncollected
from stepscope.eval.matching.turns import Encode


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoder:
    """A sentence encoder with the name and version that reports record."""

    name: str
    encode: Encode
    """Texts to embeddings ``[N, D]``."""
    version: str = ""
    """Package and version that it was loaded from."""
    digest: str = ""
    """Digest of its weights, 16 hex characters."""

    def settings(self) -> dict[str, str]:
        """Return name, version and digest under their keys in ``metrics.json``."""
        return {
            "text_encoder": self.name,
            "text_encoder_version": self.version,
            "text_encoder_digest": self.digest,
        }


def import_encoder(name: str) -> TextEncoder:
    """Load a sentence encoder in this process. Raises as ``load_encoder``."""
    encoder: TextEncoder = import_uncollected("stepscope.eval.matching.sentence_encoders").load_encoder(name)
    return encoder
