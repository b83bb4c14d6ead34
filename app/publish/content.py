"""The data of a published player as JSON: the table of videos, and the run of each video."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from stepscope.app.core.results import VIDEO_COLUMNS, round_score, score_groups
from stepscope.app.core.run import Run, analyze_run
from stepscope.app.figures.charts.layout import draw_themes
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.formatting import as_sentence, shorten_ids
from stepscope.app.player.score_tiles import count_beside, make_tiles
from stepscope.app.review_store.events import name_events
from stepscope.app.window.failures import find_lost_pairs, pack_mistakes
from stepscope.app.window.landing import find_worst_moment
from stepscope.app.window.payload import Packed, pack_run
from stepscope.engine.io.files import replace_nan, replace_surrogates_in, to_json
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.definitions import find_metric
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.metrics.score import VideoCounts, score_counts
from stepscope.eval.reports.table_files import Results
from stepscope.eval.runs.provenance import Provenance

SCORE_COLUMNS: Final = tuple(name for name in VIDEO_COLUMNS if name != "num_failures")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoContent:
    """One video of the player."""

    row: Packed
    payload: str
    """Its run as JSON; empty for a video without outputs."""
    counts: VideoCounts | None
    """Counts of its scores; None without outputs or without a reference."""


def pack_video(run: Run, encode: Encode, *, moment: int | None = None) -> VideoContent:
    """Return the content of a finished run of one video; ``moment`` is the number of the story's moment in links."""
    analysis = analyze_run(run, encode)
    judged = analysis.judged if analysis is not None else None
    sample, video_id = run.clip.sample, run.clip.video_id
    names = name_turns(sample.turns) if sample is not None else ()
    events = name_events(video_id, outputs=run.outputs, references=names, judged=judged)
    worst = find_worst_moment(run, judged, events)
    scores = score_counts(analysis.counts) if analysis is not None else {}
    beside = count_beside(judged, run.reference)
    of_page = {
        "place": {"video": video_id},  # the parameters of the published page's own address
        "link": {"video": video_id} if moment is None else {"video": video_id, "moment": str(moment)},
        "tiles": [asdict(tile) for tile in make_tiles(scores, **beside, rules=run.provenance.rules)] if scores else [],
    }
    packed: Packed = json.loads(pack_run(run, judged, events=events))
    kinds = [failure.kind for failure in judged.failures] if judged is not None else []
    row = {
        **_row(video_id),
        "duration_s": run.clip.duration_s,
        "failures": [kinds.count(kind) for kind in FAILURE_KINDS] if judged is not None else None,
        "scores": [round_score(scores[name]) if scores else None for name in SCORE_COLUMNS],
        **beside,
        "num_roots": _count_roots(packed),
        "t": worst.time_s,
        "event": worst.event,
    }
    return VideoContent(
        row=row,
        payload=to_json({**packed, **of_page}),
        counts=analysis.counts if analysis is not None else None,
    )


def pack_failed(video_id: str, reason: str) -> VideoContent:
    """Return the content of a video without outputs."""
    return VideoContent(row={**_row(video_id), "remark": as_sentence(reason)}, payload="", counts=None)


def list_mistakes(run: Run, encode: Encode) -> Mapping[float, str]:
    """Return the mistakes of a run, each in a sentence as in the player, by the times in seconds of their failures."""
    analysis = analyze_run(run, encode)
    if analysis is None or run.reference is None:
        return {}
    judged, sample = analysis.judged, run.reference
    lost = find_lost_pairs(judged, sample, run.scoring.zero_cost)
    return {
        run.outputs[judged.failures[number].frame_index].time_s: " ".join(
            filter(None, (found["scene"], found["act"] or found["states"]))
        )
        for found in pack_mistakes(judged, sample, run, lost=lost)
        for number in found["failures"]
    }


def _row(video_id: str) -> Packed:
    return {
        "id": video_id,
        "duration_s": None,
        "failures": None,
        "num_roots": None,
        "scores": [None] * len(SCORE_COLUMNS),
        "t": None,
        "event": None,
        "remark": "",
        "data": None,
        "exports": None,
        "video": None,
    }


def _count_roots(packed: Packed) -> int | None:
    """Return the number of roots of a run; None without a current diagnosis, unless nothing fails."""
    is_calm = packed["is_judged"] and not packed["failures"]
    return 0 if is_calm else len(packed["roots"]) if "roots" in packed else None


def pack_charts(results: Results) -> list[Packed]:
    """Return the charts of a run, each for both themes; an empty list for a run that was not scored."""
    if not results.charts:
        return []
    return [draw_themes(partial(chart.draw, results)) for chart in CHARTS.values()]


def pack_index(
    rows: Sequence[Packed],
    counts: Sequence[VideoCounts],
    *,
    title: str,
    provenance: Provenance,
    results: Results,
    story: Packed | None = None,
) -> Packed:
    """Return the content of the table page.

    ``results`` are empty for a run that was not scored; then the scores are those of the rows, without text scores.
    """
    metrics = results.metrics
    beside = {name: sum(row.get(name, 0) for row in rows) for name in ("num_mistakes", "num_low", "num_later")}
    known = metrics or {"scores": replace_nan(score_counts(Pool(counts, VideoCounts).total()))}
    labels = shorten_ids(str(row["id"]) for row in rows)
    content = {
        "title": title,
        "summary": provenance.summary,
        "origin": provenance.rows(),
        "num_scored": metrics.get("num_videos") or len(counts),
        "has_charts": bool(results.charts),
        "kinds": FAILURE_KINDS,
        "columns": [asdict(find_metric(name)) | {"hint": find_metric(name).hint} for name in SCORE_COLUMNS],
        "tiles": [asdict(tile) for tile in make_tiles(known["scores"], **beside, rules=provenance.rules)],
        "groups": [
            {
                "name": group.name,
                "note": group.note,
                "rows": [
                    {"label": row.metric.label, "hint": row.metric.hint, "score": row.score, "interval": row.interval}
                    for row in group.rows
                ],
            }
            for group in score_groups(known)
        ],
        "videos": [{**row, "label": labels[str(row["id"])]} for row in rows],
        "story": story,
    }
    clean: Packed = replace_surrogates_in(content)
    return clean
