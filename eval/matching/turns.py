"""Matching of responses with references, in time and in meaning: texts and frames only, without an encoder.

Every frame with a response is assigned to one frame within its window, spoken or silent, at minimum total cost. Time
and memory are proportional to the number of responses times the window. **Source**: ProAssist,
``mmassist/eval/evaluators/pred_match.py`` (commit 9d0b2b2).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepscope.engine.imports import import_uncollected
from stepscope.engine.io.arguments import check_type
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.updates import assign_rows, check_num_pairs

ZeroCost = Literal["keep", "drop"]
Encode = Callable[[list[str]], NDArray[Any]]
"""``N`` texts to embeddings ``[N, D]``, of any width and scale."""
DEFAULT_ENCODER: Final = "all-MiniLM-L6-v2"
_PAIRS_AT_ONCE = 4096


@runtime_checkable
class ComparesPairs(Protocol):
    """An encoder that rounds cosines as the published program does; its lost edges depend on the rounding."""

    def compare_pairs(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the cosine ``[P]`` of each pair of texts, the pairs in the published order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A prediction and the reference assigned to it."""

    gen_frame: int
    ref_frame: int
    cost: float
    """Text cost plus distance cost; 0 for the same text at the same frame."""
    semantic_score: float
    """Absolute cosine of the two texts, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The assignment of the predictions and references of one video."""

    pairs: tuple[Pair, ...]
    """Predictions with a reference, by frame of the prediction."""
    missed: tuple[int, ...]
    """Frames of the references without a prediction."""
    redundant: tuple[int, ...]
    """Frames of the predictions assigned to a silent frame."""


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
    """Assign each prediction to a reference or to a silent frame, at minimum total cost.

    A prediction at frame ``i`` may be assigned to the frames ``i + left`` to ``i + right``, inclusive. The cost of
    frame ``j`` is ``1 - |cos|`` (1 for a silent frame) plus ``factor * (|i - j| / max(|left|, right)) ** power``. For
    example, with the window (-5, 5) and the default factor and power, an equal text 5 frames away costs 0 + 0.3 and is
    preferred to silence at the same frame, which costs 1 + 0.

    Args:
        gen: Generated text per frame of ``T``, ``""`` for silence.
        ref: Reference text per frame of ``T``, ``""`` for silence.
        encode: Function from ``N`` texts to embeddings ``[N, D]``, of any width and scale. It gets each compared text
            once.
        match_window: (left, right) in frames, with left <= 0 <= right.
        dist_func_factor: Weight of the distance cost, from 0.
        dist_func_power: Exponent of the distance cost, from 0.
        zero_cost: The published program loses edges whose cost is exactly 0 in float32; whether equal texts at the
            same frame cost exactly 0 depends on rounding. ``"drop"`` reproduces this, with the same rounding if
            ``encode`` is a ``ComparesPairs``; ``"keep"`` keeps those edges.

    Raises:
        ValueError: An argument is invalid, or ``"drop"`` leaves a prediction without a frame.

    **Source**: ``find_match`` in ``pred_match.py``.
    """
    left, right = _checked_window(match_window)
    _check(gen, ref, factor=dist_func_factor, power=dist_func_power, zero_cost=zero_cost)
    gen_frames, is_ref = np.flatnonzero(_is_spoken(gen)), _is_spoken(ref)
    if not gen_frames.size:
        return Match(pairs=(), missed=tuple(np.flatnonzero(is_ref).tolist()), redundant=())
    rows, cols = _window_edges(gen_frames, num_frames=len(gen), left=left, right=right)
    similarity = np.zeros(len(cols), dtype=np.float32)
    spoken = np.flatnonzero(is_ref[cols])
    if spoken.size:
        gen_at, ref_at = gen_frames[rows[spoken]], cols[spoken]
        if zero_cost == "drop" and isinstance(encode, ComparesPairs):
            places = zip(gen_at.tolist(), ref_at.tolist(), strict=True)
            similarity[spoken] = np.abs(encode.compare_pairs([(gen[i], ref[j]) for i, j in places]))
        else:
            similarity[spoken] = np.abs(_compare_frames(gen, ref, gen_at, ref_at, encode))
    distance, reach = np.abs(gen_frames[rows] - cols), max(-left, right, 1)
    if zero_cost == "drop":  # all in float32, as published
        multiplier = np.float32(dist_func_factor / reach**dist_func_power)
        far = distance.astype(np.float32) ** np.float32(dist_func_power) * multiplier
        costs = ((1 - similarity) + far).astype(np.float64)
    else:
        costs = (1 - similarity) + dist_func_factor * (distance / reach) ** dist_func_power
    chosen = _assign(rows, cols, costs=costs, is_edge=(costs != 0) | (zero_cost == "keep"))
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
        raise ValueError(f"match_window must include 0, left <= 0 <= right; got {match_window!r}")
    return left, right


def _check(gen: Sequence[str], ref: Sequence[str], *, factor: float, power: float, zero_cost: str) -> None:
    check_type("gen", gen, Sized, "a list of texts")
    check_type("ref", ref, Sized, "a list of texts")
    if len(gen) != len(ref):
        raise ValueError(f"gen and ref must have one text per frame; got {len(gen)} and {len(ref)}")
    for name, texts in (("gen", gen), ("ref", ref)):
        for frame, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(f'{name}[{frame}] must be text, "" for silence; got {text!r}')
    for name, value in (("dist_func_factor", factor), ("dist_func_power", power)):
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a number from 0; got {value!r}")
    if zero_cost not in get_args(ZeroCost):
        raise ValueError(f"zero_cost must be one of {', '.join(get_args(ZeroCost))}; got {zero_cost!r}")


def _is_spoken(texts: Sequence[str]) -> NDArray[np.bool_]:
    return np.fromiter((text != "" for text in texts), dtype=bool, count=len(texts))


def _window_edges(
    gen_frames: NDArray[np.intp], *, num_frames: int, left: int, right: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row (index of the prediction) and the column (frame) of every edge, by row, then column.

    Predictions at frames 0 and 3 of 4 with the window (-1, 1) have the rows ``[0, 0, 1, 1]`` and the columns
    ``[0, 1, 2, 3]``.
    """
    offsets = np.arange(max(left, 1 - num_frames), min(right, num_frames - 1) + 1)
    check_num_pairs(len(gen_frames) * len(offsets))
    frames = gen_frames[:, None] + offsets
    inside = (frames >= 0) & (frames < num_frames)
    return np.nonzero(inside)[0], frames[inside]


def compare_texts(pairs: Sequence[tuple[str, str]], encode: Encode) -> NDArray[np.float32]:
    """Return the cosine ``[P]`` of each pair of texts. Each distinct text is encoded once."""
    gen, ref = zip(*pairs, strict=True)
    places = np.arange(len(pairs))
    return _compare_frames(gen, ref, places, places, encode)


def _compare_frames(
    gen: Sequence[str], ref: Sequence[str], gen_at: NDArray[np.intp], ref_at: NDArray[np.intp], encode: Encode
) -> NDArray[np.float32]:
    """Return the cosine ``[P]`` of each text of ``gen`` with one of ``ref``, given by their places ``[P]``."""
    ids: dict[str, int] = {}
    gen_ids, ref_ids = np.zeros(len(gen), np.intp), np.zeros(len(ref), np.intp)
    for texts, text_ids, at in ((gen, gen_ids, gen_at), (ref, ref_ids, ref_at)):
        for place in np.unique(at).tolist():
            text_ids[place] = ids.setdefault(texts[place], len(ids))
    vectors = unit_vectors(encode(list(ids)), num_texts=len(ids))
    parts = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(gen_at), _PAIRS_AT_ONCE)]
    cosines = [np.einsum("pd,pd->p", vectors[gen_ids[gen_at[p]]], vectors[ref_ids[ref_at[p]]]) for p in parts]
    return np.concatenate(cosines)


def unit_vectors(embeddings: NDArray[Any], *, num_texts: int) -> NDArray[np.float32]:
    """Return embeddings ``[N, D]`` with length 1. Raises ``ValueError`` unless they are N finite vectors."""
    vectors = np.asarray(embeddings, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != num_texts or not np.isfinite(vectors).all():
        raise ValueError(f"encode must return {num_texts} finite vectors [N, D]; got the shape {vectors.shape}")
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)


def _assign(
    rows: NDArray[np.intp], cols: NDArray[np.intp], *, costs: NDArray[np.float64], is_edge: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the index of the chosen edge of every row. Only frames with an edge become columns."""
    frames, columns = np.unique(cols, return_inverse=True)
    shape = (int(rows[-1]) + 1, len(frames))
    try:
        chosen = assign_rows((rows[is_edge], columns[is_edge]), costs[is_edge], shape=shape)
    except ValueError as error:
        raise ValueError('without its zero costs this video has no full matching; use zero_cost="keep"') from error
    return np.flatnonzero(columns == chosen[rows])


def span_frames(turn: Turn, *, fps: float) -> tuple[int, int]:
    """Return the first and the last frame of a reply span, or the frame of an instant twice.

    At 2 frames/s, a span from 4.3 to 5.1 s gives ``(8, 10)``, and one from 4.1 to 4.4 s gives ``(8, 8)``.
    """
    start = frame_at(turn.time_s, fps)
    return start, start if turn.end_s is None else frame_at(turn.end_s, fps)


def delay_from_span(frame: int, turn: Turn, *, fps: float) -> float:
    """Return the distance in seconds from a turn to a frame: negative before it, 0 inside its reply span.

    For the span from 4 to 8 s at 1 fps, frame 2 gives -2.0, frame 6 gives 0.0 and frame 11 gives 3.0.
    """
    start, end = span_frames(turn, fps=fps)
    return (min(frame - start, 0) + max(frame - end, 0)) / fps


def pair_inside_spans(match: Match, sample: Sample, responses: Mapping[int, str], *, encode: Encode) -> Match:
    """Pair each missed turn that has a reply span with the first redundant response inside it.

    The match window is around the start of a turn, so a later response inside a long span has no edge to it. The cost
    of such a pair is that of its texts.
    """
    missed, redundant, pairs = set(match.missed), list(match.redundant), list(match.pairs)
    for turn in sample.turns:
        ref = frame_at(turn.time_s, sample.fps)
        if turn.role != "assistant" or turn.end_s is None or ref not in missed:
            continue
        place = bisect_left(redundant, ref)
        if place < len(redundant) and delay_from_span(redundant[place], turn, fps=sample.fps) == 0:
            frame = redundant.pop(place)
            score = min(abs(float(compare_texts([(responses[frame], turn.text)], encode)[0])), 1.0)
            pairs.append(Pair(gen_frame=frame, ref_frame=ref, cost=1 - score, semantic_score=score))
            missed.discard(ref)
    return replace(
        match,
        pairs=tuple(sorted(pairs, key=lambda pair: pair.gen_frame)),
        missed=tuple(frame for frame in match.missed if frame in missed),
        redundant=tuple(redundant),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEncoder:
    """A sentence encoder with the name and version that reports record."""

    name: str
    encode: Encode
    version: str = ""
    """Package and version that it was loaded from."""
    digest: str = ""
    """Digest of its weights, 16 hex characters."""

    def settings(self) -> dict[str, str]:
        """Return name, version and digest under their keys in ``metrics.json``."""
        return {"text_encoder": self.name, "text_encoder_version": self.version, "text_encoder_digest": self.digest}


def import_encoder(name: str) -> TextEncoder:
    """Load a sentence encoder in this process. Raises as ``load_encoder``."""
    encoder: TextEncoder = import_uncollected("stepscope.eval.matching.sentence_encoders").load_encoder(name)
    return encoder
