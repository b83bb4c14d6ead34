"""Reads one video of a run folder as a run of the player."""

from collections.abc import Mapping
from dataclasses import replace

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.grading import NamedJudge
from stepscope.eval.metrics.replies.reply_spans import count_spans, list_replies, list_span_turns
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder, explain_missing, read_stream_config
from stepscope.eval.served.judge import read_kept_judge


def read_saved_run(folder: RunFolder, clip: Clip, *, scoring: ScoreSettings, encoder: Mapping[str, str]) -> Run:
    """Return the finished run of a clip, which has a sample, in a run folder.

    Args:
        folder: The run folder.
        clip: The clip; its sample names the video.
        scoring: Score settings.
        encoder: Name, version and digest of the text encoder, with the keys of ``metrics.json``.

    Raises ``ValueError`` if the video has no outputs, or invalid ones.
    """
    sample, settings = clip.sample, folder.settings() or {}
    assert sample is not None
    record = folder.record(sample.video_id)
    if missing := explain_missing(sample, record):
        raise ValueError(f"{sample.video_id} has no outputs: {missing}")
    return Run(
        clip=clip if sample.has_reference or sample.is_copied else replace(clip, sample=None),
        task=build_task(sample),
        config=read_stream_config(settings, fps=sample.fps),
        model_digest=str(settings.get("model_digest", "")),
        outputs=folder.outputs(sample),
        scoring=scoring,
        judge=_find_judge(folder, sample),
        live=None if record is None else record.live,
        name=folder.path.resolve().name,
        is_finished=True,
        settings={**settings, **encoder},
    )


def _find_judge(folder: RunFolder, sample: Sample) -> NamedJudge | None:
    """Return the judge that a run was scored with, if its folder has all answers for a video; None for the default."""
    path = folder.path / "metrics.json"
    if not list_span_turns(sample) or not path.exists():
        return None
    try:
        judge = read_kept_judge(folder.path, str(read_metrics(folder.path).get("judge", "")))
        if judge is not None:
            count_spans(sample, list_replies(sample, folder.outputs(sample)), grade=judge.grade)
    except ValueError:  # an answer is missing or the file is damaged, so that the bands grade
        return None
    return judge
