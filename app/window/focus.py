"""The menus in the head of the page: splits, runs, and the videos of a run or split."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.results import WORST_FIRST, VideoFilter, choose_rows
from stepscope.app.core.videos import is_drawing
from stepscope.engine.model.files.bundled import BUNDLED_DIGESTS
from stepscope.engine.plurals import format_count
from stepscope.eval.metrics.definitions import NUM_FAILURES
from stepscope.eval.reports.mistakes import quote
from stepscope.eval.reports.search import read_moments
from stepscope.eval.reports.table_files import read_results
from stepscope.eval.runs.folder import UNSCORED
from stepscope.eval.runs.provenance import Provenance


def name_model(digest: str, checkpoint: str) -> str:
    """Return a model in words, by the digest and the name of its checkpoint."""
    if digest in BUNDLED_DIGESTS:
        return "the bundled model"
    return f"the model {quote(checkpoint)}" if checkpoint else "a model"


def describe_run(origin: Provenance) -> str:
    """Return model and thresholds of a run in words."""
    model = name_model(origin.model_digest, origin.checkpoint).removeprefix("the ").removeprefix("model ")
    return ", ".join(filter(None, (model, *map(" ".join, origin.thresholds))))


def list_choices(batches: BatchContext, part: str, *, split: str, run: str) -> list[dict[str, Any]]:
    """Return what a ``part`` can be: splits; runs, those of ``split`` first; or videos of ``run``, else of ``split``.

    Each has an ``id``, its ``words`` and what is ``about`` it; a split its newest ``run``, a run its ``split``, its
    ``model`` and whether that cannot know its videos (``warning``), and a video its number of mistakes (``count``) or
    None.
    """
    if part == "split":
        newest = {name_split(batches, run): run for run in reversed(batches.listed_runs())}
        about = {name: format_count(len(one.samples), "video") for name, one in batches.listed_splits().items()}
        return [{"id": name, "words": name, "about": about[name], "run": newest.get(name, "")} for name in about]
    if part == "run":
        return sorted(_list_runs(batches), key=lambda one: one["split"] != split)
    return list(_list_videos(batches, split, run))


def name_split(batches: BatchContext, run: str | None) -> str:
    """Return the name of the split of a run; empty for one that the page does not list."""
    split = batches.find_split(run)
    return next((name for name, one in batches.listed_splits().items() if one is split), "")


def _list_runs(batches: BatchContext) -> Iterator[dict[str, Any]]:
    for name in batches.listed_runs():
        about, model, is_foreign = "", "", False
        with suppress(ValueError, OSError):  # the list of Batch names the problem
            origin = Provenance.of_settings(name, batches.settings_of(name))
            about, model, is_foreign = describe_run(origin), origin.model_digest, _is_foreign(batches, name)
        found = {"id": name, "words": name, "about": about, "split": name_split(batches, name)}
        yield {**found, "model": model, "warning": is_foreign}


def _is_foreign(batches: BatchContext, name: str) -> bool:
    """Return whether the bundled model made a run of a video that it cannot know; see ``Run.warning``."""
    settings, split = batches.settings_of(name), batches.find_split(name)
    if settings.get("model_digest") not in BUNDLED_DIGESTS or split is None:
        return False
    paths = (sample.video_path or Path() for sample in split.samples)
    is_own = any(path.is_file() and not is_drawing(path) for path in paths)
    return not settings["is_drawing"] if "is_drawing" in settings else is_own


def _list_videos(batches: BatchContext, split: str, run: str) -> Iterator[dict[str, Any]]:
    if not run:
        known = batches.listed_splits().get(split)
        for sample in known.samples if known is not None else ():
            yield {"id": sample.video_id, "words": sample.video_id, "about": "", "count": None}
        return
    counts, names = count_mistakes(batches, run), batches.video_names(run)
    for video_id in list_videos(batches, run):
        count = None if counts is None else counts.get(video_id, 0)
        yield {"id": video_id, "words": names.get(video_id, video_id), "about": "", "count": count}


def list_videos(batches: BatchContext, run: str) -> list[str]:
    """Return the ids of the videos with outputs of a run, those of most failures first.

    Raises ``ValueError`` for a damaged table.
    """
    rows = read_results(batches.folder(run)).rows or batches.recorded_rows(run)
    listed = choose_rows(rows, VideoFilter(WORST_FIRST[NUM_FAILURES]))
    return [str(row["video_id"]) for row in listed if row["error"] in ("", *UNSCORED)]


def count_mistakes(batches: BatchContext, run: str) -> dict[str, int] | None:
    """Return the number of mistakes of each video that has some; None for a run without a table of them."""
    try:
        table = read_moments(batches.folder(run))
    except (ValueError, OSError):
        return None
    mistakes = table[table["failure"] != ""].groupby("video_id", observed=True)["mistake"].nunique()
    return {str(video_id): int(number) for video_id, number in mistakes.items()}
