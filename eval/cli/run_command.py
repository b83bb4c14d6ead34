"""``stepscope eval``: runs a split and scores it.

This process leads: workers stream the videos, and a process of its own embeds their texts. So neither the model nor the
sentence encoder is imported here, which takes seconds.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict

from tqdm import tqdm

from eval.cli.options import RunOptions
from eval.cli.tables import BAR_DELAY_S, make_score_settings, write_scores
from eval.cli.worker_config import make_worker_config
from eval.data.loading import read_split
from eval.metrics.score import list_references
from eval.metrics.text import TextScorer
from eval.reports.early_scoring import EarlyScoring
from eval.reports.encoder_process import EncoderProcess
from eval.reports.scoring import score_run
from eval.runs.batch import FinishedVideo, run_batch
from eval.runs.progress import Progress


def run(options: RunOptions) -> int:
    """Stream every video of a split, write the run folder and the scores; return 1 if a video failed."""
    split = read_split(options.split, videos=options.videos)
    if not split.entries:
        raise ValueError(f"{options.split} holds no videos, so there is nothing to score")
    config = options.stream_config(speak_threshold=options.speak_threshold, update_threshold=options.update_threshold)
    worker_config = make_worker_config(options, config, live=options.teacher_forced, batch_size=options.batch_size)
    scoring = make_score_settings(options)
    events = run_batch(
        split, worker_config, out=options.out, devices=options.devices, resume=options.resume, scoring=asdict(scoring)
    )
    samples = {sample.video_id: sample for sample in split.samples}
    encoders = EncoderProcess()
    with (
        TextScorer(references=list_references(split.samples)) as scorer,
        EarlyScoring(options.out, scoring, scorer, load=encoders.load) as early,
        encoders,  # ends first after an error, since the threads of ``early`` wait for it
    ):
        with closing(events):
            _show_progress(_forward_finished(events, lambda video_id: early.add(samples[video_id])))
        encoder, analyses = early.finish()
        scored = score_run(options.out, split, scoring, encode=encoder.encode, scorer=scorer, analyses=analyses)
        return 1 if write_scores(options.out, scored, encoder).errors else 0


def _forward_finished(
    events: Iterable[FinishedVideo | Progress], add: Callable[[str], None]
) -> Iterator[FinishedVideo | Progress]:
    """Call ``add`` with the id of each finished video."""
    for event in events:
        if isinstance(event, FinishedVideo) and not event.record.error:
            add(event.record.video_id)
        yield event


def _show_progress(events: Iterable[FinishedVideo | Progress]) -> None:
    """Draw the progress bar of frames and videos; print failures as they occur."""
    with tqdm(unit="frame", dynamic_ncols=True, smoothing=0.1, delay=BAR_DELAY_S) as bar:
        for event in events:
            if isinstance(event, Progress):
                bar.total = event.num_frames
                bar.set_postfix(videos=f"{event.num_finished}/{event.num_videos}", refresh=False)
                bar.update(event.num_done - bar.n)
            elif event.record.error and not event.is_kept:
                bar.write(f"failed: {event.record.video_id}: {event.record.error}", file=sys.stderr)
