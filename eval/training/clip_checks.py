"""Counts of the clips of a split, from their annotations."""

from collections.abc import Iterator, Mapping

from stepscope.engine.dialogue import parse_update
from stepscope.engine.errors import ContextError
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.training.dataset import FrameSource, check_contexts
from stepscope.engine.training.sequences import TrainingClip
from stepscope.eval.data.samples import InvalidSample, Split
from stepscope.eval.runs.streaming.teacher_forcing import make_clip
from stepscope.eval.training.clip_table import ClipRow


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
            yield count_clip(entry.video_id, clip, checkpoint, fps=entry.fps, refresh_at=refresh_at)
        except (ContextError, ValueError) as error:
            yield ClipRow(video_id=entry.video_id, problem=str(error), is_used=False)


def count_clip(
    name: str,
    clip: TrainingClip,
    checkpoint: Checkpoint,
    *,
    fps: float,
    refresh_at: int,
    source: FrameSource | None = None,
    states: Mapping[str, str] | None = None,
) -> ClipRow:
    """Return the counts of a clip, whose context is refreshed at ``refresh_at`` tokens.

    Raises ``ContextError`` if a context is longer than the model allows.
    """
    contexts = check_contexts(clip, checkpoint, source=source, refresh_at=refresh_at, states=states)
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
