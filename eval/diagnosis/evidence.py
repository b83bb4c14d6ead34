"""The evidence for decisions of a run folder: ``VIDEO.evidence.json``, which is complete after each decision.

A video is run again up to its last decision. Each decision is compared with what the reference has at its frame: a
wrong text is contrasted with the right one, a turn that is missing or that nobody asked for with silence.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

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
from stepscope.eval.diagnosis.references import list_reference_turns
from stepscope.eval.runs.folder import RunFolder, digest_sample, evidence_path, is_outcome_of
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.pools.worker import load_checkpoint
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import WorkerConfig, WorkerSpec

MAX_PICTURES: Final = 256
"""Latest pictures before a decision whose differences are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedDecision:
    """The evidence for one decision, or why there is none."""

    video_id: str
    frame: int
    evidence: Evidence | None = None
    error: str = ""


def explain_decisions(
    run: Path, worker_config: WorkerConfig, decisions: Sequence[tuple[Sample, Sequence[int]]], spec: WorkerSpec
) -> Generator[ExplainedDecision]:
    """Explain the decisions of some videos at some frames, and write the evidence of each.

    Evidence that is there already is kept if model and sample are the same.

    Raises as ``load_model``, ``FolderRefusedError`` for a folder that is being written, ``ValueError`` for an invalid
    file, and ``OSError``.
    """
    folder, loaded = RunFolder(run), None
    settings = folder.settings() or {}
    with lock_folder(run):
        for sample, frames in decisions:
            path, empty, known = _read_known(run, settings, sample)
            for frame in sorted({*frames} & {*known}):
                yield ExplainedDecision(video_id=sample.video_id, frame=frame, evidence=known[frame])
            missing = sorted({*frames} - {*known})
            if not missing:
                continue
            if loaded is None:
                checkpoint = load_checkpoint(worker_config, spec)
                loaded = checkpoint, randomize(checkpoint.model)
            for decision in _explain_video(folder, worker_config, sample, missing, *loaded):
                if decision.evidence is not None:
                    known[decision.frame] = decision.evidence
                    write_evidence(path, replace(empty, decisions=tuple(known[frame] for frame in sorted(known))))
                yield decision


def keep_evidence(run: Path, sample: Sample, found: Evidence) -> None:
    """Write the evidence for one decision into a run folder. Raises as ``explain_decisions``."""
    with lock_folder(run):
        path, empty, known = _read_known(run, RunFolder(run).settings() or {}, sample)
        known[found.frame_index] = found
        write_evidence(path, replace(empty, decisions=tuple(known[frame] for frame in sorted(known))))


def _read_known(
    run: Path, settings: Mapping[str, Any], sample: Sample
) -> tuple[Path, EvidenceFile, dict[int, Evidence]]:
    """Return the file of a video, its content without decisions, and those that it has of this sample and model."""
    path = evidence_path(run, sample.video_id)
    origin = {name: str(settings.get(name) or "") for name in ("model_digest", "heads_digest")}
    empty = EvidenceFile(source=digest_sample(sample), **origin, decisions=())
    found = read_evidence(path) if path.exists() else empty
    is_same = replace(found, decisions=()) == empty
    return path, empty, {one.frame_index: one for one in found.decisions if is_same}


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
    folder: RunFolder,
    work: WorkerConfig,
    sample: Sample,
    frames: Sequence[int],
    checkpoint: Checkpoint,
    random_model: VisionLanguageModel,
) -> Iterator[ExplainedDecision]:
    """Run a video again up to the last of some frames, and yield the evidence for its decision at each."""
    features = SampleFeatures(checkpoint=checkpoint, folder=work.features, hardware=work.hardware_decoding)
    config = replace(work.config, fps=sample.fps)
    try:
        record = folder.record(sample.video_id)
        if record is None or not is_outcome_of(record, sample):
            raise ValueError("it is not in the run, or has changed since the run; run it again")
        first = islice(features.embed(sample), frames[-1] + 1)
        recording = Recording(checkpoint, first, task=build_task(sample), config=config)
        outputs = list(recording.run())
        kept = folder.outputs(sample)
    except (EngineError, ValueError) as error:
        yield from (ExplainedDecision(video_id=sample.video_id, frame=frame, error=str(error)) for frame in frames)
        return
    num_frames = min(len(outputs), len(kept))
    for frame in [frame for frame in frames if frame >= num_frames]:
        reason = f"the run has {num_frames} frames, up to {(num_frames - 1) / sample.fps:g} s"
        yield ExplainedDecision(video_id=sample.video_id, frame=frame, error=reason)
    for frame, pictures in _read_pictures(checkpoint, sample, [frame for frame in frames if frame < num_frames]):
        decision = ExplainedDecision(video_id=sample.video_id, frame=frame)
        try:
            if not is_same(outputs[frame], kept[frame]):
                raise ValueError("the model decides otherwise here than in the run folder; run it again on this device")
            found = _explain_frame(recording, sample, frame, pictures, random_model)
            yield replace(decision, evidence=found)
        except (EngineError, ValueError) as error:
            yield replace(decision, error=str(error))


def explain_frame(recording: Recording, sample: Sample, frame: int) -> Evidence:
    """Return the evidence for the decision at a frame of a finished run, with its patches if it has a video.

    Raises as ``explain_decision``.
    """
    pictures = dict(_read_pictures(recording.checkpoint, sample, [frame])).get(frame, {})
    return _explain_frame(recording, sample, frame, pictures, None)


def _explain_frame(
    recording: Recording, sample: Sample, frame: int, pictures: Pictures, random_model: VisionLanguageModel | None
) -> Evidence:
    has_updates = recording.config.policy.has_updates
    target = choose_target(recording.outputs[frame], sample, has_updates=has_updates)
    options: dict[str, Any] = {"pictures": pictures, "patches_frame": "strongest"} if pictures else {}
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
