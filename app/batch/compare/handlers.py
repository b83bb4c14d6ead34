"""Handlers that compare the shown run, A, with a second run, B."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gradio as gr

from app.batch import saved_runs as saved
from app.batch.compare.tables import compared_turns, compared_videos, describe_sides, draw_differences, thresholds_of
from app.batch.context import BatchContext
from app.formatting import as_sentence
from app.player.context import AppContext
from app.player.session.live_run import LiveRun
from app.player.views import PlayerView
from eval.metrics.definitions import NUM_FAILURES
from eval.reports.compare_runs import FAILURE_SCORES, FEW_VIDEOS, ComparedVideo
from eval.runs.folder import RunFolder
from eval.runs.traces import read_provenance


class ComparedRuns(NamedTuple):
    """The compared runs; the window may show a different run by now."""

    a: str
    b: str
    videos: Sequence[ComparedVideo]


class CompareView(NamedTuple):
    """The outputs of the comparison."""

    compared: Any
    said: Any
    failures: Any
    scores: Any
    videos: Any
    turns: Any


def compare(
    context: AppContext, batches: BatchContext, name: str | None, other: str | None, wrong_in: str, metric: str
) -> CompareView:
    """Compare the shown run ``name`` (A) with the run ``other`` (B)."""
    try:
        if not name or not other or name == other:
            raise ValueError("choose two runs: A above, B here")
        found = batches.compare(name, other, encode=context.encode)
        a, b = (read_provenance(RunFolder(batches.runs / run)) for run in (name, other))
    except (ValueError, OSError) as error:
        said, videos = as_sentence(error), compared_videos([], metric)
        return CompareView(compared=None, said=said, failures="", scores="", videos=videos, turns=[])
    unfinished = f" {len(found.left_out)} videos are omitted: not finished in both." if found.left_out else ""
    said = (
        f"A is {name}, B is {other}; {len(found.videos)} videos. {describe_sides(a, b)}{unfinished}"
        f"{_scoring_note(batches, name, other)} Click a row to open both runs."
    )
    if len(found.videos) < FEW_VIDEOS:
        said += f" With fewer than {FEW_VIDEOS} videos the intervals are too narrow; p (permutation test) is valid."
    compared = ComparedRuns(name, other, found.videos)
    notes = (thresholds_of(a), thresholds_of(b))
    scores = {metric: score for metric, score in found.differences.items() if metric not in FAILURE_SCORES}
    return CompareView(
        compared=compared,
        said=said,
        failures=draw_differences({name: found.differences[name] for name in FAILURE_SCORES}, notes=notes),
        scores=draw_differences(scores, found.times_problem, notes=notes),
        videos=compared_videos(found.videos, metric, batches.video_names(name)),
        turns=choose_turns(batches, compared, wrong_in),
    )


def _scoring_note(batches: BatchContext, name: str, other: str) -> str:
    """Return a note if B was scored with settings that differ from those of A, which are used for both."""
    a, b = (batches.scoring_of(batches.settings_of(run)) for run in (name, other))
    if a == b:
        return ""
    settings = f"dataset {a.dataset or 'none'}, zero_cost {a.zero_cost}"
    return f" {other} was scored with different settings; here both are scored with {settings}, as {name} was."


def choose_turns(batches: BatchContext, compared: ComparedRuns | None, wrong_in: str) -> list[list[str | float]]:
    """Return the rows of the turns of compared runs that are wrong in ``wrong_in``."""
    split = None if compared is None else batches.split_of(batches.settings_of(compared.a))
    if compared is None or split is None:
        return []
    samples = {sample.video_id: sample for sample in split.samples}
    return compared_turns(compared.videos, samples, wrong_in, batches.video_names(compared.a))


def sort_videos(batches: BatchContext, compared: ComparedRuns | None, metric: str) -> dict[str, Any]:
    """Return the table of the videos of compared runs by the score ``metric``."""
    if compared is None:
        return compared_videos((), metric)
    return compared_videos(compared.videos, metric, batches.video_names(compared.a))


def list_other_runs(batches: BatchContext, name: str | None, other: str | None) -> Any:
    """Return the dropdown of the runs with which the shown run can be compared."""
    names = [run for run in batches.run_names() if run != name]
    return gr.Dropdown(choices=names, value=other if other in names else None)


def open_both(
    context: AppContext,
    batches: BatchContext,
    live: LiveRun | None,
    compared: ComparedRuns | None,
    event: gr.SelectData,
) -> PlayerView:
    """Show a video in two runs at its worst moment, the run with more failures above."""
    if compared is None:
        return saved.refuse(ValueError("no runs are compared; choose two"))
    video_id = batches.find_video(compared.a, str(event.row_value[0]))
    scores_a, scores_b = next(video.scores for video in compared.videos if video.video_id == video_id)
    names = _order(batches, compared, is_b_first=scores_b.get(NUM_FAILURES, 0) > scores_a.get(NUM_FAILURES, 0))
    return saved.open_moment(context, batches, live, video_id, names=names, open_at="worst")


def open_turn(
    context: AppContext,
    batches: BatchContext,
    live: LiveRun | None,
    compared: ComparedRuns | None,
    event: gr.SelectData,
) -> PlayerView:
    """Show a turn in two runs, B above if the turn is wrong only there."""
    if compared is None:
        return saved.refuse(ValueError("no runs are compared; choose two"))
    short_name, time_s, wrong_in, *_ = event.row_value
    video_id = batches.find_video(compared.a, str(short_name))
    names = _order(batches, compared, is_b_first=wrong_in == "only B")
    return saved.open_moment(context, batches, live, video_id, names=names, open_at=float(time_s))


def _order(batches: BatchContext, compared: ComparedRuns, *, is_b_first: bool) -> tuple[str, str]:
    """Return both runs, the upper one first; that is A if their scoring differs, since A's settings judge both."""
    a, b = (batches.scoring_of(batches.settings_of(name)) for name in compared[:2])
    return (compared.b, compared.a) if is_b_first and a == b else (compared.a, compared.b)
