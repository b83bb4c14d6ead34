"""Scoring of a recorded run: one that another program or a live session wrote, and that no job of the page scores."""

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.job_queue import Job
from stepscope.eval.data.samples import InvalidSample, Sample


def make_score_job(batches: BatchContext, name: str | None) -> Job:
    """Return the job that scores a recorded run.

    The turns of a live session are a copy of the model's own. They are a reference once a reviewer has corrected one.
    Raises ``ValueError`` with the remedy for a run without a reference.
    """
    if name is None or not batches.is_recorded(name):
        raise ValueError(f"{name or 'no run'} is no recorded run; choose one")
    settings = batches.settings_of(name)
    split = batches.split_of(settings)
    if split is None:
        raise ValueError(f"{name} is of a split that this page does not have; add it with --split or Another split")
    entries, remarks = list[Sample | InvalidSample](), dict[str, str]()
    for entry in split.entries:
        if isinstance(entry, Sample) and entry.is_copied:
            corrected = batches.correct(entry)
            if corrected.sample.has_reference:
                remarks[entry.video_id] = f"scored against its corrected turns; {corrected.num_changed} changed"
            entries.append(corrected.sample)
        else:
            entries.append(entry)
    scored = split.with_entries(entries)
    if not any(sample.has_reference for sample in scored.samples):
        cure = (
            "its turns are a copy of the model's own. Open it, correct them in Review, then press Score"
            if any(sample.is_copied for sample in scored.samples)
            else "its videos were recorded without a reference"
        )
        raise ValueError(f"{name} has no scores: {cure}")
    scoring = batches.scoring_of(settings)
    return Job(folder=batches.folder(name), split=scored, is_recorded=True, remarks=remarks, scoring=scoring)
