"""Fits the constants of the cost model: least squares of relative errors, with coefficients that are not negative."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from engine.video.decoding_work import DecodingWork
from eval.planning.predict import StreamWork
from eval.planning.workload import PerVideo, VideoLoad, list_values


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWork:
    """Some work and its time on one device."""

    work: StreamWork
    seconds: float


def fit_quantity(loads: Sequence[VideoLoad], values: Sequence[float], *, has_prompt: bool = True) -> PerVideo:
    """Fit a positive quantity of videos as linear in their workloads, without ``has_prompt`` not in their prompts."""
    num_values = 4 if has_prompt else 3
    return PerVideo(*_fit([list_values(load)[:num_values] for load in loads], values))


def fit_times(timed: Sequence[TimedWork]) -> tuple[float, float, float, float]:
    """Return the seconds per pass, per row, per token and per token of context."""
    rows = [(one.work.passes, one.work.rows, one.work.tokens, one.work.context) for one in timed]
    pass_s, row_s, token_s, context_s = _fit(rows, [one.seconds for one in timed])
    return pass_s, row_s, token_s, context_s


def fit_decoding(works: Sequence[DecodingWork], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the seconds per megapixel and per megabyte of decoding."""
    megapixel_s, megabyte_s = _fit([(work.megapixels, work.megabytes) for work in works], seconds)
    return megapixel_s, megabyte_s


def _fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return coefficients ``[K]`` of rows ``[N, K]``, each weighted by its value ``[N]``: errors count relatively."""
    targets = np.asarray(values, float)
    design = np.asarray(rows, float) / targets[:, None]
    scale = np.abs(design).max(axis=0)
    scale[scale == 0] = 1
    solution, _ = nnls(design / scale, np.ones(len(targets)))
    return [round_digits(number) for number in solution / scale]


def round_digits(number: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{number:.4g}")
