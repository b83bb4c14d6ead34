"""The clips of a training split with their kept features."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from stepscope.engine.dialogue import parse_update
from stepscope.engine.errors import ContextError, EngineError
from stepscope.engine.io.files import load_json
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.feature_files import open_features
from stepscope.engine.records import numbered_lines
from stepscope.engine.training.dataset import EncodedClip, FrameSource, check_contexts, read_clips
from stepscope.engine.training.processes import ALONE, Processes
from stepscope.engine.training.sequences import ContextRules, TrainingClip
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split, describe_early_end
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.streaming.teacher_forcing import make_clip
from stepscope.eval.training.results import ClipRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """The clips of a split that can be used, and the table of all."""

    clips: tuple[EncodedClip, ...]
    rows: tuple[ClipRow, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """A line per clip with a problem."""
        return tuple(f"{row.video_id}: {row.problem}" for row in self.rows if row.problem)

    @property
    def invalid(self) -> tuple[str, ...]:
        """A line per clip that cannot be used."""
        return tuple(f"{row.video_id}: {row.problem}" for row in self.rows if not row.is_used)


def is_clip_file(path: Path) -> bool:
    """Whether a file holds training clips with features, as ``engine.training.dataset`` reads them."""
    try:
        _, line = next(islice(numbered_lines(path), 1))
        first = load_json(line)
    except (StopIteration, ValueError, OSError):
        return False
    return isinstance(first, dict) and "features" in first and "conversation" not in first


def load_training_data(
    path: Path,
    features: SampleFeatures,
    rules: ContextRules,
    *,
    videos: Path | None,
    fps: float,
    progress: Callable[[Sequence[Sample]], Iterable[Sample]] = lambda samples: samples,
    processes: Processes = ALONE,
) -> TrainingData:
    """Read a split of any format, or training clips, and encode the videos whose features are not kept yet.

    ``fps`` is the rate of the features of training clips; the samples of a split have their own. ``progress`` wraps the
    samples; the processes encode together, and each opens all features.
    """
    checkpoint = features.checkpoint
    if is_clip_file(path):
        problems = list[str]()
        clips = read_clips(path, checkpoint, fps=fps, on_invalid=problems.append)
        rows = [_count_or_explain(clip, checkpoint, rules, fps=fps) for clip in clips]
        used = tuple(clip for clip, row in zip(clips, rows, strict=True) if row.is_used)
        rows += [ClipRow(video_id=path.name, problem=problem, is_used=False) for problem in problems]
        return TrainingData(clips=used, rows=tuple(rows))
    split = read_split(path, videos=videos)
    if processes.count > 1:
        _encode_share(processes.share(split.samples), features)
        processes.wait()
    samples = progress(split.samples)
    loaded = dict(_load_samples(samples, features, rules))
    rows = [
        ClipRow(video_id=entry.video_id, problem=entry.reason, is_used=False)
        if isinstance(entry, InvalidSample)
        else loaded[entry.video_id][1]
        for entry in split.entries
    ]
    found = tuple(clip for clip, _ in loaded.values() if clip is not None)
    return TrainingData(clips=found, rows=tuple(rows))


def _count_or_explain(clip: EncodedClip, checkpoint: Checkpoint, rules: ContextRules, *, fps: float) -> ClipRow:
    try:
        return count_clip(clip.name, clip.clip, checkpoint, rules, fps=fps, source=clip.source)
    except (EngineError, ValueError) as error:
        return ClipRow(video_id=clip.name, problem=str(error), is_used=False)


def _encode_share(samples: Sequence[Sample], features: SampleFeatures) -> None:
    """Keep the features of some samples; ``_load_samples`` reports a video that cannot be encoded."""
    for sample in samples:
        with suppress(EngineError, ValueError):
            features.keep(sample)


def _load_samples(
    samples: Iterable[Sample], features: SampleFeatures, rules: ContextRules
) -> Iterator[tuple[str, tuple[EncodedClip | None, ClipRow]]]:
    checkpoint = features.checkpoint
    for sample in samples:
        try:
            path = features.keep(sample)
            assert path is not None
            source = open_features(path, checkpoint, fps=sample.fps)
            num_frames = min(sample.num_frames, source.num_frames)
            clip = EncodedClip(name=sample.video_id, clip=make_clip(sample, num_frames=num_frames), source=source)
            row = count_clip(sample.video_id, clip.clip, checkpoint, rules, fps=sample.fps, source=source)
        except (EngineError, ValueError) as error:
            yield sample.video_id, (None, ClipRow(video_id=sample.video_id, problem=str(error), is_used=False))
            continue
        if early_end := describe_early_end(sample, num_frames):
            row = replace(row, problem=f"the video {early_end}")
        yield sample.video_id, (clip, row)


def check_split(split: Split, checkpoint: Checkpoint, *, refresh_at: int) -> Iterator[ClipRow]:
    """Yield a row per entry of a split from its annotation alone; videos are not opened.

    Raises ``CheckpointError`` for a model of a family that is not trained.
    """
    for entry in split.entries:
        if isinstance(entry, InvalidSample):
            yield ClipRow(video_id=entry.video_id, problem=entry.reason, is_used=False)
            continue
        try:
            clip = make_clip(entry, num_frames=entry.num_frames)
            yield count_clip(entry.video_id, clip, checkpoint, ContextRules(refresh_at=refresh_at), fps=entry.fps)
        except (ContextError, ValueError) as error:
            yield ClipRow(video_id=entry.video_id, problem=str(error), is_used=False)


def count_clip(
    name: str,
    clip: TrainingClip,
    checkpoint: Checkpoint,
    rules: ContextRules,
    *,
    fps: float,
    source: FrameSource | None = None,
) -> ClipRow:
    """Return the counts of a clip. Raises ``ContextError`` if a context is longer than the model allows."""
    contexts = check_contexts(clip, checkpoint, rules, source=source)
    of_role = {role: [turn for turn in clip.turns if turn.role == role] for role in ("assistant", "update", "user")}
    updates = [update for turn in of_role["update"] if (update := parse_update(turn.text)) is not None]
    minutes = clip.num_frames / fps / 60
    num_turns = len(of_role["assistant"]) + len(of_role["update"])
    return ClipRow(
        video_id=name,
        frames=clip.num_frames,
        minutes=minutes,
        responses=len(of_role["assistant"]),
        updates=len(of_role["update"]),
        user_turns=len(of_role["user"]),
        turns_per_minute=num_turns / minutes,
        speaking_rate=len({turn.frame_index for turn in of_role["assistant"]}) / clip.num_frames,
        update_rate=len({turn.frame_index for turn in of_role["update"]}) / clip.num_frames,
        steps=len(clip.steps),
        steps_never_seen=len({step.id for step in clip.steps} - {update.step_id for update in updates}),
        contexts=len(contexts),
        longest_context=max((len(context.ids) for context in contexts), default=0),
    )
