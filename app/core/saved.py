"""Saved runs: one video of a run folder as a run of the player, and the bundled run that the page opens on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

from stepscope.app.core.run import PAGE_SCORING, Kept, Run
from stepscope.app.core.videos import BundledVideos, Clip
from stepscope.app.formatting import name_files
from stepscope.engine.config import StreamConfig
from stepscope.engine.evidence.records import Evidence, read_evidence
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.matching.grading import NamedJudge
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.metrics.replies.reply_spans import count_spans, list_replies, list_span_turns
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.reports.table_files import read_metrics, read_video_rows
from stepscope.eval.runs.folder import RunFolder, digest_entry, evidence_path, explain_missing, read_stream_config
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, RunDiagnosis, read_run_diagnosis
from stepscope.eval.served.judge import read_kept_judge


def read_saved_run(
    folder: RunFolder, clip: Clip, *, settings: Mapping[str, Any], scoring: ScoreSettings, encoder: Mapping[str, str]
) -> Run:
    """Return the finished run of a clip, which has a sample, in a run folder.

    ``settings`` is its ``run.json``; ``encoder`` has name, version and digest of the text encoder, with the keys of
    ``metrics.json``.

    Raises ``ValueError`` if the video has no outputs, or invalid ones.
    """
    sample = clip.sample
    assert sample is not None
    record = folder.record(sample.video_id)
    if missing := explain_missing(sample, record):
        raise ValueError(f"{sample.video_id} has no outputs: {missing}")
    run = Run(
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
        settings={"config": {}, **settings, **encoder},
    )
    return replace(run, kept=_read_kept(folder, sample, settings, digest=run.digest))


def _read_kept(folder: RunFolder, sample: Sample, settings: Mapping[str, Any], *, digest: str) -> Kept:
    """Return the diagnosis and the evidence of a video in a run folder; a damaged file is a problem of both."""
    kept = Kept(digest=digest)
    try:
        kept = replace(kept, evidence=_read_evidence(folder, sample, settings))
        path = folder.path / DIAGNOSIS_FILE
        diagnosis = _read_diagnosis(folder.path, path.stat().st_mtime_ns) if path.exists() else None
    except (ValueError, OSError) as error:
        names = [folder.path / DIAGNOSIS_FILE, evidence_path(folder.path, sample.video_id)]
        return replace(kept, problem=f"its diagnosis cannot be read: {name_files(str(error), names)}")
    video = diagnosis.find(sample.video_id) if diagnosis is not None else None
    if diagnosis is None or video is None:
        return kept
    stale = diagnosis.explain_changed(settings) or video.explain_changed(folder)
    return replace(kept, diagnosis=diagnosis, video=replace(video, stale=stale))


@lru_cache(maxsize=4)  # all videos of a run are published one by one
def _read_diagnosis(folder: Path, _: int) -> RunDiagnosis | None:
    return read_run_diagnosis(folder)


def _read_evidence(folder: RunFolder, sample: Sample, settings: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """Return the evidence for decisions of a video, if it is of this sample and model."""
    path = evidence_path(folder.path, sample.video_id)
    if not path.is_file():
        return ()
    found = read_evidence(path)
    model = [str(settings.get(name) or "") for name in ("model_digest", "heads_digest")]
    is_same = [found.model_digest, found.heads_digest] == model and found.source.startswith(digest_entry(sample))
    return found.decisions if is_same else ()


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


BUNDLED_NAME: Final = "bundled"
OPENING_VIDEO: Final = "robot-permuted"
"""The bundled video that the page opens on: one wrong step, what would prevent it, and what follows from it."""


@dataclass(frozen=True, kw_only=True)
class BundledRun:
    """The bundled run of the bundled videos, where it equals the runs that the page would make."""

    folder: RunFolder
    num_failures: Mapping[str, int]
    """Failures of each video, by id."""

    @classmethod
    def find(cls, path: Path, *, videos: Path, model_digest: str, config: StreamConfig) -> Self | None:
        """Return the run in the folder ``path``; None if it is of other videos, of another model or other settings.

        ``videos`` is the manifest of the page's bundled videos, and ``config`` has the settings of its runs.
        """
        folder = RunFolder(path)
        try:
            settings = folder.settings() or {}
            if settings.get("split") != str(videos.resolve()) or settings.get("model_digest") != model_digest:
                return None
            if read_stream_config(settings, fps=config.fps).frame_by_frame() != config.frame_by_frame():
                return None
            rows = [row for row in read_video_rows(path) if not row["error"]]
            counts = {str(row["video_id"]): int(row.get(NUM_FAILURES, math.nan)) for row in rows}
        except (ValueError, OverflowError, OSError):
            return None  # a damaged folder is no bundled run: the page opens without one
        return cls(folder=folder, num_failures=counts)

    def opening_clip(self, videos: BundledVideos) -> Clip | None:
        """Return the clip that the page opens on: that of ``OPENING_VIDEO``, or else of the most failures."""
        clips = [clip for clip in videos.clips if clip.name in self.num_failures]
        return max(clips, key=lambda clip: (clip.name == OPENING_VIDEO, self.num_failures[clip.name]), default=None)

    def run_of(self, clip: Clip, *, encoder: Mapping[str, str]) -> Run | None:
        """Return the run of a bundled clip; None if it lacks the clip, or the clip's reference or file has changed.

        Like a run of the page it has no name: a link to it leads to the same run on any server.
        """
        if not clip.is_bundled or clip.sample is None or self.folder.find_finished(clip.sample) is None:
            return None
        settings = self.folder.settings() or {}
        run = read_saved_run(self.folder, clip, settings=settings, scoring=PAGE_SCORING, encoder=encoder)
        return replace(run, name="", kept_as=BUNDLED_NAME)
