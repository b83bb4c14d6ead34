"""Matching: which prediction answers which reference, in time and in meaning.

Every frame with a response is assigned to one frame near it, spoken or silent, at the least total cost: a response on
a silent frame is *redundant*, a reference that nobody was assigned to is *missed*. Work and memory grow with the
responses times the window, never with the square of the video. Knows texts and frames only: no seconds, no scores of
a corpus, no encoder of its own.

**Source**: ProAssist, ``mmassist/eval/evaluators/pred_match.py`` (commit 9d0b2b2).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

ZeroCost = Literal["keep", "drop"]
Encode = Callable[[list[str]], NDArray[Any]]
_PAIRS_AT_ONCE = 4096


@runtime_checkable
class ComparesPairs(Protocol):
    """An encoder that rounds cosines as the published program does, on which its lost edges depend."""

    def compare_pairs(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the cosine ``[P]`` of each pair of texts, the pairs in the published order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A prediction and the reference that it was assigned to."""

    gen_frame: int
    """Frame of the prediction."""
    ref_frame: int
    """Frame of the reference."""
    cost: float
    """Text cost plus distance cost; 0 is the same words on the same frame."""
    semantic_score: float
    """Absolute cosine of the two texts, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The predictions and references of one video, assigned."""

    pairs: tuple[Pair, ...]
    """Predictions with a reference, by frame of the prediction."""
    missed: tuple[int, ...]
    """Frames of the references that no prediction was assigned to."""
    redundant: tuple[int, ...]
    """Frames of the predictions that were assigned to silence."""


def find_match(
    gen: Sequence[str],
    ref: Sequence[str],
    *,
    encode: Encode,
    match_window: tuple[int, int],
    dist_func_factor: float = 0.3,
    dist_func_power: float = 1.5,
    zero_cost: ZeroCost = "keep",
) -> Match:
    """Assign each prediction to a reference or to silence, at the least total cost.

    ``gen[i]`` and ``ref[i]`` are the texts at frame ``i`` of ``T``, ``""`` for silence. ``encode`` gets each text that
    is compared once and returns ``[N, D]``, of any length and scale. A prediction at ``i`` may take the frames ``i +
    left`` to ``i + right``, ends included. The cost is ``1 - |cos|`` (1 for a silent frame) plus ``factor * (|i - j| /
    max(|left|, right)) ** power``. The published program loses edges whose cost is exactly 0 in float32, which of
    equal texts on one frame is a matter of rounding: ``zero_cost="drop"`` does so too, with the same rounding if
    ``encode`` is a ``ComparesPairs``; ``"keep"`` does not.

    Raises ``ValueError`` for arguments that fit no video, and where ``"drop"`` leaves predictions without a frame.

    **Source**: ``find_match`` in ``pred_match.py``.
    """
    left, right = _checked_window(match_window)
    _check(gen, ref, factor=dist_func_factor, power=dist_func_power, zero_cost=zero_cost)
    gen_frames, is_ref = np.flatnonzero(_is_spoken(gen)), _is_spoken(ref)
    if not gen_frames.size:
        return Match(pairs=(), missed=tuple(np.flatnonzero(is_ref).tolist()), redundant=())
    rows, cols = _window_edges(gen_frames, num_frames=len(gen), left=left, right=right)
    measure = _published_similarity if zero_cost == "drop" else _similarity
    similarity = measure(gen, ref, gen_frames=gen_frames[rows], ref_frames=cols, is_ref=is_ref, encode=encode)
    distance, reach = np.abs(gen_frames[rows] - cols), max(-left, right, 1)
    if zero_cost == "drop":  # all in float32, as published
        multiplier = np.float32(dist_func_factor / reach**dist_func_power)
        far = distance.astype(np.float32) ** np.float32(dist_func_power) * multiplier
        costs = ((1 - similarity) + far).astype(np.float64)
    else:
        costs = (1 - similarity) + dist_func_factor * (distance / reach) ** dist_func_power
    is_edge = costs != 0 if zero_cost == "drop" else np.ones(costs.shape, dtype=bool)
    chosen = _assign(rows, cols, costs=costs, is_edge=is_edge)
    taken, is_pair = cols[chosen], is_ref[cols[chosen]]
    is_ref[taken] = False
    found = zip(gen_frames, taken, costs[chosen], similarity[chosen], is_pair, strict=True)
    return Match(
        pairs=tuple(
            Pair(gen_frame=int(i), ref_frame=int(j), cost=max(float(cost), 0.0), semantic_score=min(float(score), 1.0))
            for i, j, cost, score, both_talk in found
            if both_talk
        ),
        missed=tuple(np.flatnonzero(is_ref).tolist()),
        redundant=tuple(gen_frames[~is_pair].tolist()),
    )


def _checked_window(match_window: tuple[int, int]) -> tuple[int, int]:
    try:
        left, right = (index(end) for end in match_window)
    except (TypeError, ValueError) as error:
        raise ValueError(f"match_window must be two whole numbers of frames; got {match_window!r}") from error
    if not left <= 0 <= right:
        raise ValueError(f"match_window must hold the frame itself, left <= 0 <= right; got {match_window!r}")
    return left, right


def _check(gen: Sequence[str], ref: Sequence[str], *, factor: float, power: float, zero_cost: str) -> None:
    if len(gen) != len(ref):
        raise ValueError(f"gen and ref must have one text per frame; got {len(gen)} and {len(ref)}")
    for name, texts in (("gen", gen), ("ref", ref)):
        for frame, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(f'{name}[{frame}] must be text, "" for silence; got {text!r}')
    for name, value in (("dist_func_factor", factor), ("dist_func_power", power)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a number from 0; got {value!r}")
    if zero_cost not in get_args(ZeroCost):
        raise ValueError(f"zero_cost must be one of {', '.join(get_args(ZeroCost))}; got {zero_cost!r}")


def _is_spoken(texts: Sequence[str]) -> NDArray[np.bool_]:
    return np.fromiter((text != "" for text in texts), dtype=bool, count=len(texts))


def _window_edges(
    gen_frames: NDArray[np.intp], *, num_frames: int, left: int, right: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row (number of the prediction) and the column (frame) of every edge, by row, then column."""
    offsets = np.arange(max(left, 1 - num_frames), min(right, num_frames - 1) + 1)
    frames = gen_frames[:, None] + offsets
    inside = (frames >= 0) & (frames < num_frames)
    return np.nonzero(inside)[0], frames[inside]


def _published_similarity(
    gen: Sequence[str],
    ref: Sequence[str],
    *,
    gen_frames: NDArray[np.intp],
    ref_frames: NDArray[np.intp],
    is_ref: NDArray[np.bool_],
    encode: Encode,
) -> NDArray[np.float32]:
    """Return ``|cos|`` of every edge, rounded as published where the encoder can do that."""
    if not isinstance(encode, ComparesPairs):
        return _similarity(gen, ref, gen_frames=gen_frames, ref_frames=ref_frames, is_ref=is_ref, encode=encode)
    similarity = np.zeros(len(ref_frames), dtype=np.float32)
    spoken = np.flatnonzero(is_ref[ref_frames])
    if spoken.size:
        texts = [(gen[i], ref[j]) for i, j in zip(gen_frames[spoken], ref_frames[spoken], strict=True)]
        similarity[spoken] = np.abs(encode.compare_pairs(texts))
    return similarity


def _similarity(
    gen: Sequence[str],
    ref: Sequence[str],
    *,
    gen_frames: NDArray[np.intp],
    ref_frames: NDArray[np.intp],
    is_ref: NDArray[np.bool_],
    encode: Encode,
) -> NDArray[np.float32]:
    """Return ``|cos|`` of every edge, 0 where the reference is silent."""
    similarity = np.zeros(len(ref_frames), dtype=np.float32)
    spoken = np.flatnonzero(is_ref[ref_frames])
    if not spoken.size:
        return similarity
    ids: dict[str, int] = {}
    gen_ids = [ids.setdefault(gen[frame], len(ids)) for frame in gen_frames[spoken].tolist()]
    ref_ids = [ids.setdefault(ref[frame], len(ids)) for frame in ref_frames[spoken].tolist()]
    vectors = _unit_vectors(encode(list(ids)), num_texts=len(ids))
    for start in range(0, len(spoken), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        cosine = np.einsum("pd,pd->p", vectors[gen_ids[part]], vectors[ref_ids[part]])
        similarity[spoken[part]] = np.abs(cosine)
    return similarity


def _unit_vectors(embeddings: NDArray[Any], *, num_texts: int) -> NDArray[np.float32]:
    vectors = np.asarray(embeddings, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != num_texts or not np.isfinite(vectors).all():
        raise ValueError(f"encode must return {num_texts} finite vectors [N, D]; got the shape {vectors.shape}")
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)


def _assign(
    rows: NDArray[np.intp], cols: NDArray[np.intp], *, costs: NDArray[np.float64], is_edge: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the chosen edge of every row.

    Frames without any edge are no columns: they cannot be chosen. Every full assignment has as many edges as rows, so
    adding 1 to all costs moves no choice, and SciPy, which drops zeros, sees none.
    """
    frames, columns = np.unique(cols, return_inverse=True)
    shape = (int(rows[-1]) + 1, len(frames))
    try:
        _, chosen_columns = min_weight_full_bipartite_matching(
            csr_matrix((costs[is_edge] + 1, (rows[is_edge], columns[is_edge])), shape=shape)
        )
    except ValueError as error:
        raise ValueError('without its zero costs this video has no full matching; use zero_cost="keep"') from error
    return np.flatnonzero(columns == np.asarray(chosen_columns)[rows])
