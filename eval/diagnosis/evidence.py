"""The evidence for decisions of a run folder: ``VIDEO.evidence.json``, which is complete after each decision.

A video is run again up to its last decision. Each decision is compared with what the reference has at its frame: a
wrong text is contrasted with the right one, a turn that is missing or that nobody asked for with silence.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

from stepscope.engine.control.intervention import SILENCE
from stepscope.engine.errors import EngineError
from stepscope.engine.evidence.explain import Pictures, explain_decision
from stepscope.engine.evidence.records import Contrast, Evidence, EvidenceFile, Target, read_evidence, write_evidence
from stepscope.engine.evidence.scoring import randomize
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameResizer
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.records import FrameOutput, is_same
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.diagnosis.gold import list_reference_turns
from stepscope.eval.runs.batch import open_backend, parse_devices
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample, evidence_path, is_outcome_of
from stepscope.eval.runs.output_folder import Outcome, lock_folder
from stepscope.eval.runs.pools import worker
from stepscope.eval.runs.pools.ray_pool import is_cluster
from stepscope.eval.runs.pools.scheduler import run_scheduler
from stepscope.eval.runs.pools.worker import load_checkpoint
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import FramesDone, VideoResult, WorkerConfig

MAX_PICTURES: Final = 256
"""Latest pictures before a decision whose differences are measured."""
_FIRST_TOKENS = 1_500
"""Most tokens to feed for the first part of the evidence for one decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDecision:
    """The evidence for one decision, or why there is none."""

    video_id: str
    frame: int
    output: FrameOutput | None = None
    """What the model did at the frame when it ran again."""
    evidence: Evidence | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedVideo(Outcome):
    """The decisions of one video, from a worker."""

    decisions: tuple[ExplainedDecision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceConfig(WorkerConfig):
    """Checkpoint and settings of the evidence for decisions."""

    worker_module: ClassVar[str] = __name__
    frames: Mapping[str, Sequence[int]]
    """Frames of the decisions by video, ascending."""


class Worker(worker.Worker):
    """Explains the decisions of one video after another."""

    def _run_samples(
        self, checkpoint: Checkpoint, samples: Iterator[Sample | None]
    ) -> Iterator[FramesDone | VideoResult]:
        assert isinstance(self._config, EvidenceConfig)
        random_model = randomize(checkpoint.model)
        for sample in filter(None, samples):
            record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample))
            decisions = tuple(_explain_video(checkpoint, self._config, sample, random_model))
            explained = ExplainedVideo(video_id=record.video_id, source=record.source, decisions=decisions)
            yield VideoResult(record=record, diagnosis=explained)


def explain_decisions(
    run: Path, worker_config: WorkerConfig, decisions: Sequence[tuple[Sample, Sequence[int]]], devices: str = "auto"
) -> Generator[ExplainedDecision]:
    """Explain the decisions of some videos at some frames, and write the evidence of each; see ``run_batch``.

    Evidence that is there already is kept if model and sample are the same.

    Raises as ``run_batch``, ``FolderRefusedError`` for a folder that is being written, ``ValueError`` for an invalid
    file, and ``OSError``.
    """
    folder, pending = RunFolder(run), dict[str, list[int]]()
    with lock_folder(run):
        for sample, frames in decisions:
            known = {one.frame_index: one for one in _read_kept(run, sample).decisions if one.frame_index in frames}
            for frame, evidence in known.items():
                yield ExplainedDecision(video_id=sample.video_id, frame=frame, evidence=evidence)
            missing = sorted({*frames} - {*known})
            num_frames, reason = _find_frames(folder, sample)
            for frame in missing:
                if frame >= num_frames:
                    yield ExplainedDecision(video_id=sample.video_id, frame=frame, error=reason)
            if missing and missing[0] < num_frames:
                pending[sample.video_id] = [frame for frame in missing if frame < num_frames]
        if not pending:
            return
        names = [field.name for field in fields(WorkerConfig)]
        work = EvidenceConfig(**{name: getattr(worker_config, name) for name in names}, frames=pending)
        samples = {sample.video_id: sample for sample, _ in decisions if sample.video_id in pending}
        for decision in _run(work, list(samples.values()), devices):
            video_id = decision.video_id
            kept = folder.outputs(samples[video_id])[decision.frame]
            if decision.evidence is None:
                yield decision
            elif decision.output is None or not is_same(decision.output, kept):
                reason = "the model decides otherwise here than in the run folder; run it again on this device"
                yield replace(decision, evidence=None, error=reason)
            else:
                _keep(run, samples[video_id], decision.evidence)
                yield decision


def _find_frames(folder: RunFolder, sample: Sample) -> tuple[int, str]:
    """Return the number of frames of a video's run, 0 without one, and why no further frame can be explained."""
    record = folder.record(sample.video_id)
    if record is None or not is_outcome_of(record, sample):
        return 0, "it is not in the run, or has changed since the run; run it again"
    num_frames = len(folder.outputs(sample))
    return num_frames, f"the run has {num_frames} frames, up to {(num_frames - 1) / sample.fps:g} s"


def _run(work: EvidenceConfig, samples: Sequence[Sample], devices: str) -> Generator[ExplainedDecision]:
    """Explain decisions in this process on one device, on several or on a cluster by workers."""
    specs = [] if is_cluster(devices) else parse_devices(devices)
    if len(specs) == 1:
        checkpoint = load_checkpoint(work, specs[0])
        random_model = randomize(checkpoint.model)
        for sample in samples:
            yield from _explain_video(checkpoint, work, sample, random_model)
        return
    with open_backend(devices, work) as backend, closing(run_scheduler(samples, backend)) as events:
        for event in events:
            if isinstance(event, VideoResult) and isinstance(event.diagnosis, ExplainedVideo):
                yield from event.diagnosis.decisions
            elif isinstance(event, VideoResult):
                video_id, error = event.record.video_id, event.record.error
                frames = work.frames[video_id]
                yield from (ExplainedDecision(video_id=video_id, frame=frame, error=error) for frame in frames)


def keep_evidence(run: Path, sample: Sample, found: Evidence) -> None:
    """Write the evidence for one decision into a run folder. Raises as ``explain_decisions``."""
    with lock_folder(run):
        _keep(run, sample, found)


def _keep(run: Path, sample: Sample, found: Evidence) -> None:
    kept = _read_kept(run, sample)
    known = {one.frame_index: one for one in (*kept.decisions, found)}
    decisions = tuple(known[frame] for frame in sorted(known))
    write_evidence(evidence_path(run, sample.video_id), replace(kept, decisions=decisions))


def _read_kept(run: Path, sample: Sample) -> EvidenceFile:
    """Return the evidence in a run folder for a video, without decisions of another sample or model."""
    path, settings = evidence_path(run, sample.video_id), RunFolder(run).settings() or {}
    origin = {name: str(settings.get(name) or "") for name in ("model_digest", "heads_digest")}
    empty = EvidenceFile(source=digest_sample(sample), **origin, decisions=())
    found = read_evidence(path) if path.exists() else empty
    return found if replace(found, decisions=()) == empty else empty


def choose_target(output: FrameOutput, sample: Sample, *, has_updates: bool) -> Target | Contrast | None:
    """Return what to explain at a frame, by its turn in the reference; None without one, or if the output is that turn.

    An update comes before a message, and a wrong one is contrasted with the right one.
    """
    if not sample.has_reference:
        return None
    reference = list_reference_turns(sample).get(output.frame_index, SILENCE)
    written = [update for update in output.updates if update not in reference.updates]
    expected = [update for update in reference.updates if update not in output.updates]
    if has_updates and written and expected:
        return Contrast(written=written[0], expected=expected[0])
    if has_updates and (written or expected):
        return "update"
    if output.response == reference.response:
        return None
    if output.response is not None and reference.response is not None:
        return Contrast(written=output.response, expected=reference.response, kind="response")
    return "silence" if output.response is None else "speak"


def _explain_video(
    checkpoint: Checkpoint, work: EvidenceConfig, sample: Sample, random_model: VisionLanguageModel
) -> Iterator[ExplainedDecision]:
    """Run a video again up to the last of its frames, and yield the evidence for its decision at each."""
    features = SampleFeatures(checkpoint=checkpoint, folder=work.features, hardware=work.hardware_decoding)
    config, frames = replace(work.config, fps=sample.fps), work.frames[sample.video_id]
    try:
        first = islice(features.embed(sample), frames[-1] + 1)
        recording = Recording(checkpoint, first, task=build_task(sample), config=config)
        outputs = list(recording.run())
    except (EngineError, ValueError) as error:
        yield from (ExplainedDecision(video_id=sample.video_id, frame=frame, error=str(error)) for frame in frames)
        return
    for frame in frames[bisect_left(frames, len(outputs)) :]:
        yield ExplainedDecision(video_id=sample.video_id, frame=frame, error=f"it has {len(outputs)} frames now")
    for frame, pictures in _read_pictures(checkpoint, sample, [frame for frame in frames if frame < len(outputs)]):
        decision = ExplainedDecision(video_id=sample.video_id, frame=frame, output=outputs[frame])
        try:
            yield replace(decision, evidence=_explain_frame(recording, sample, frame, pictures, random_model))
        except (EngineError, ValueError) as error:
            yield replace(decision, error=str(error))


def explain_frame(recording: Recording, sample: Sample, frame: int) -> Generator[Evidence]:
    """Yield the evidence for the decision at a frame of a finished run: of the last frames, then all of it.

    The first takes a second or two on two cores; texts, other frames and the patches of a video take several times as
    long late in a video. Raises as ``explain_decision``.
    """
    random_model = randomize(recording.checkpoint.model)
    yield _explain_frame(recording, sample, frame, {}, random_model, with_texts=False, max_tokens=_FIRST_TOKENS)
    pictures = dict(_read_pictures(recording.checkpoint, sample, [frame])).get(frame, {})
    yield _explain_frame(recording, sample, frame, pictures, random_model)


def _explain_frame(
    recording: Recording,
    sample: Sample,
    frame: int,
    pictures: Pictures,
    random_model: VisionLanguageModel | None,
    **options: Any,
) -> Evidence:
    has_updates = recording.config.policy.has_updates
    target = choose_target(recording.outputs[frame], sample, has_updates=has_updates)
    options |= {"pictures": pictures, "patches_frame": "strongest"} if pictures else {}
    return explain_decision(recording, frame, target=target, random_model=random_model, **options)


def _read_pictures(checkpoint: Checkpoint, sample: Sample, frames: Sequence[int]) -> Iterator[tuple[int, Pictures]]:
    """Yield each frame with the latest pictures up to it, as the model sees them; none where there is no video."""
    path = sample.video_path
    if not frames:
        return
    if path is None or not Path(path).is_file():
        yield from ((frame, {}) for frame in frames)
        return
    resizer = FrameResizer(checkpoint.model)
    latest = deque[tuple[int, Any]](maxlen=MAX_PICTURES)
    pictures = read_frames(path, fps=sample.fps, excerpt=sample.excerpt, on_damage=lambda _: None)
    for picture in islice(pictures, frames[-1] + 1):
        latest.append((picture.index, resizer.resize(picture.image)))
        if picture.index in frames:
            yield picture.index, dict(latest)
