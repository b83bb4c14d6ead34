"""The diagnosis of a recording, and a worker that makes those of videos; see ``eval.runs.pools``."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from stepscope.engine.errors import EngineError
from stepscope.engine.io.arguments import check_type
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.diagnosis.classes import Diagnosis, classify
from stepscope.eval.diagnosis.experiments import Experiment, list_experiments
from stepscope.eval.diagnosis.videos import Embed, diagnose_video
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode, import_encoder
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
        for sample in filter(None, samples):
            steps = diagnose_sample(checkpoint, work, sample, encode)
            yield from (step for step in steps if isinstance(step, VideoResult))


def diagnose_sample(
    checkpoint: Checkpoint, work: DiagnosisConfig, sample: Sample, encode: Encode
) -> Generator[str | VideoResult]:
    """Stream a video again and diagnose it; yield what is done next, then the outputs and the diagnosis."""
    record, warnings = VideoRecord(video_id=sample.video_id, source=digest_sample(sample)), list[str]()
    features = SampleFeatures(checkpoint=checkpoint, folder=work.features, hardware=work.hardware_decoding)
    config = replace(work.config, fps=sample.fps)
    yield f"{sample.video_id}: run"
    try:
        recording = Recording(checkpoint, features.embed(sample, warnings), task=build_task(sample), config=config)
        outputs = tuple(recording.run())
        embed = _make_embed(features)
        for step in diagnose_video(
            recording, sample, work.experiments, encode=encode, scoring=work.scoring, embed=embed
        ):
            if isinstance(step, str):
                yield f"{sample.video_id}: {step}"
            else:
                diagnosis = replace(step, warning="; ".join(warnings))
                yield VideoResult(record=record, outputs=outputs, diagnosis=diagnosis)
    except (EngineError, ValueError) as error:
        yield VideoResult(record=replace(record, error=str(error)))


def explain(
    recording: Recording,
    sample: Sample,
    *,
    experiments: Sequence[Experiment] | None = None,
    encode: Encode | None = None,
    dataset: str = "",
) -> Diagnosis:
    """Return why a finished run of a video failed: its roots, what follows from each, and what prevents them.

    The recording is streamed again many times, by default about 34 times its own cost. Its KV cache is consumed.
    With one video, the controls of each experiment are the right turns of this video alone; ``stepscope explain`` has
    those of a split. Example::

        recording = Recording(checkpoint, encode(checkpoint, read_frames(sample.video_path, fps=sample.fps)),
                              task=Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns))
        list(recording.run())
        for root in explain(recording, sample).roots:
            print(root.time_s, root.cause, root.num_consequences)

    Args:
        recording: A finished run of the sample's video.
        sample: The video with its reference.
        experiments: Changes to try, by default all; () for the roots alone.
        encode: Function from ``N`` texts to embeddings ``[N, D]``, by default the sentence encoder of the scores.
        dataset: Name that chooses the match window.

    Raises:
        ValueError: The run samples its texts, the sample has no reference, or one that fails by its own scores.
    """
    check_type("recording", recording, Recording, "a Recording")
    check_type("sample", sample, Sample, "a Sample of read_samples")
    check_type("dataset", dataset, str, "text")
    if recording.task.steps != sample.steps:
        raise ValueError(f"the recording has other steps than the sample {sample.video_id}; pass its own sample")
    tried = list_experiments() if experiments is None else tuple(experiments)
    scoring = ScoreSettings(text_encoder=DEFAULT_ENCODER, dataset=dataset)
    steps = diagnose_video(
        recording,
        sample,
        tried,
        encode=encode or import_encoder(DEFAULT_ENCODER).encode,
        scoring=scoring,
        embed=_make_embed(SampleFeatures(checkpoint=recording.checkpoint)),
    )
    return classify([step for step in steps if not isinstance(step, str)], tried)


def _make_embed(features: SampleFeatures) -> Embed:
    def embed(sample: Sample, shift_s: float) -> "Sequence[FrameFeatures]":
        if not shift_s:
            return list(features.embed(sample))
        return list(features.embed(replace(sample, start_s=(sample.start_s or 0.0) + shift_s)))

    return embed
