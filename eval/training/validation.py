"""Validation: the videos of a split, streamed freely with the model in training, and scored."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.dialogue import initial_state
from stepscope.engine.records import FrameOutput, check_probs, unknown_output
from stepscope.engine.stream import Streamer
from stepscope.engine.training.processes import Processes
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.definitions import GROUPS
from stepscope.eval.metrics.score import VideoCounts, analyze_video
from stepscope.eval.metrics.text import undefined_texts
from stepscope.eval.reports.scoring import Report, make_report
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.training.results import SHOWN_SCORES

_NOT_COMPUTED: Final = ("Text", "Teacher-forced", "System")
"""Groups of scores that take longer than a validation should, or measure the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """Streams and scores the videos of a split."""

    features: SampleFeatures
    """The model of their checkpoint is the one in training."""
    config: StreamConfig
    samples: tuple[Sample, ...]
    encode: Encode
    metrics: tuple[str, ...]
    """Scores whose mean is the validation score; an undefined one is left out."""
    check_stop: Callable[[], None] = lambda: None
    """Raises an exception to stop between two videos."""
    processes: Processes = field(default_factory=Processes)
    """The processes that share the videos; each returns the same scores."""

    def __call__(self) -> tuple[float, Mapping[str, float]]:
        """Return the validation score, and the scores of the curves."""
        report = self.report(num_resamples=0)
        known = [report.scores[name] for name in self.metrics if not math.isnan(report.scores[name])]
        values = {name: report.scores[name] for name in dict.fromkeys([*self.metrics, *SHOWN_SCORES])}
        return (sum(known) / len(known) if known else -math.inf), values

    def report(self, *, is_silent: bool = False, num_resamples: int = 1000) -> Report:
        """Return all scores except those of texts; with ``is_silent`` those of a system that never acts."""
        rows = list[tuple[int, VideoCounts]]()

        def count_share() -> None:
            for number, sample in self.processes.share(list(enumerate(self.samples))):
                rows.append((number, self.count(sample, is_silent=is_silent)))

        self.processes.agree(count_share)
        ordered = sorted(self.processes.gather(rows), key=itemgetter(0))
        return make_report([counts for _, counts in ordered], score_texts=undefined_texts, num_resamples=num_resamples)

    def count(self, sample: Sample, *, is_silent: bool = False) -> VideoCounts:
        """Stream and score one video."""
        self.check_stop()
        if is_silent:
            state = initial_state(sample.steps, sample.initial_state)
            unknown = (unknown_output(frame, fps=sample.fps, dst_state=state) for frame in range(sample.num_frames))
            outputs = [replace(output, speak_prob=0.0, update_prob=0.0) for output in unknown]
        else:
            outputs = self._stream(sample)
        has_states = self.config.policy.has_updates
        return analyze_video(sample, outputs, encode=self.encode, has_states=has_states).counts

    def _stream(self, sample: Sample) -> list[FrameOutput]:
        config = replace(self.config, fps=sample.fps)
        outputs = Streamer(self.features.checkpoint, config).run(self.features.embed(sample), build_task(sample))
        return [check_probs(one, decides_at=config.decides_at) for one in outputs]


def check_metrics(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for a score that validation does not compute, or one for which lower is better."""
    groups = [group for group in GROUPS if group.name not in _NOT_COMPUTED]
    computed = [metric for group in groups for metric in group.metrics if metric.scope != "video"]
    known = {metric.name for metric in computed if metric.better == "higher"}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            "--metric must name scores of a split of which higher is better, such as F1, and none of the groups "
            f"{', '.join(_NOT_COMPUTED)} of docs/metrics.md; got {', '.join(unknown) or 'none'}"
        )
