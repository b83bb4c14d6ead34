"""A worker that diagnoses videos in place of running them; see ``eval.runs.pools``."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from stepscope.engine.errors import EngineError
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.diagnosis.experiments import Experiment
from stepscope.eval.diagnosis.videos import Embed, diagnose_video
from stepscope.eval.matching.turns import Encode, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import VideoRecord, digest_sample
from stepscope.eval.runs.pools import worker
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import FramesDone, VideoResult, WorkerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisConfig(WorkerConfig):
    """Checkpoint and settings of a diagnosis."""

    worker_module: ClassVar[str] = __name__
    experiments: tuple[Experiment, ...]
    scoring: ScoreSettings


class Worker(worker.Worker):
    """Diagnoses one video after another."""

    def _run_samples(
        self, checkpoint: Checkpoint, samples: Iterator[Sample | None]
    ) -> Iterator[FramesDone | VideoResult]:
        work = self._config
        assert isinstance(work, DiagnosisConfig)
        encode = import_encoder(work.scoring.text_encoder).encode
        for sample in samples:
            if sample is not None:
                yield from diagnose_sample(checkpoint, work, sample, encode)


def diagnose_sample(
    checkpoint: Checkpoint, work: DiagnosisConfig, sample: Sample, encode: Encode
) -> Generator[FramesDone | VideoResult]:
    """Stream a video again and diagnose it; yield what is done next, then the outputs and the diagnosis."""
    record, warnings = VideoRecord(video_id=sample.video_id, source=digest_sample(sample)), list[str]()
    features = SampleFeatures(checkpoint=checkpoint, folder=work.features, hardware=work.hardware_decoding)
    config = replace(work.config, fps=sample.fps)
    yield FramesDone(video_id=sample.video_id, num_done=0, activity="run")
    try:
        recording = Recording(checkpoint, features.embed(sample, warnings), task=build_task(sample), config=config)
        outputs = tuple(recording.run())
        steps = diagnose_video(
            recording,
            sample,
            work.experiments,
            encode=encode,
            scoring=work.scoring,
            embed=make_embed(features),
        )
        while True:
            try:
                activity = next(steps)
            except StopIteration as end:
                diagnosis = replace(end.value, warning="; ".join(warnings))
                break
            yield FramesDone(video_id=sample.video_id, num_done=0, activity=activity)
        yield VideoResult(record=record, outputs=outputs, diagnosis=diagnosis)
    except (EngineError, ValueError) as error:
        yield VideoResult(record=replace(record, error=str(error)))


def make_embed(features: SampleFeatures) -> Embed:
    """Return a function that embeds a sample with its frames taken later."""

    def embed(sample: Sample, shift_s: float) -> "Sequence[FrameFeatures]":
        if not shift_s:
            return list(features.embed(sample))
        return list(features.embed(replace(sample, start_s=(sample.start_s or 0.0) + shift_s)))

    return embed
