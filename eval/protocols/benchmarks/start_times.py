"""Rules of times around the starts of references: EgoProactive, Interactive Cooking, OmniPro, OVO-Timing and QEVD."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stepscope.eval.metrics.replies.response_timing import OVO_CLUE_DELAY_S, OVO_TOLERANCE_S, match_ovo
from stepscope.eval.protocols.protocol import (
    ROUNDING,
    Counted,
    Parameter,
    Protocol,
    Sums,
    Video,
    compute_f1,
    divide_by,
    score_hits,
)


def _count_chunks(video: Video, *, chunk_s: float) -> Counted:
    def find_chunks(times_s: Iterable[float]) -> list[int]:
        return [int((time_s + ROUNDING) // chunk_s) for time_s in times_s]

    chunks = find_chunks(span.start_s for span in video.references)
    wanted, spoken = set(chunks), set(find_chunks(video.times_s))
    if video.duration_s is None:
        num_chunks = max(wanted | spoken, default=-1) + 1
    else:
        num_chunks = math.ceil((video.duration_s - ROUNDING) / chunk_s)
    wanted, spoken = (found & set(range(num_chunks)) for found in (wanted, spoken))
    sums = {"right": len(wanted & spoken), "wrong": len(wanted ^ spoken), "silent": num_chunks - len(wanted | spoken)}
    return Counted(sums, tuple(float(chunk in spoken) for chunk in chunks))


def _summarize_chunks(sums: Sums) -> dict[str, float]:
    right, wrong, silent = sums["right"], sums["wrong"], sums["silent"]
    if not right + wrong + silent:
        return dict.fromkeys(("macro_f1", "g_mean", "f1_interrupt", "f1_silent"), math.nan)
    f1_interrupt = 2 * right / (2 * right + wrong) if right else 0.0
    f1_silent = 2 * silent / (2 * silent + wrong) if silent else 0.0
    return {
        "macro_f1": (f1_interrupt + f1_silent) / 2,
        "g_mean": math.sqrt(f1_interrupt * f1_silent),
        "f1_interrupt": f1_interrupt,
        "f1_silent": f1_silent,
    }


def _count_cooking(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    left = set(range(len(video.times_s)))
    is_met = [False] * len(video.references)
    for number, span in enumerate(video.references):
        fits = (
            reply
            for reply in sorted(left)
            if abs(video.times_s[reply] - span.start_s) <= tolerance_s + ROUNDING
            and video.accuracies[reply][number] >= right_accuracy
        )
        found = next(fits, None)
        if found is not None:
            left.remove(found)
            is_met[number] = True
    sums = {"hits": sum(is_met), "replies": len(video.times_s), "references": len(is_met)}
    return Counted(sums, tuple(map(float, is_met)))


_COOKING: Final[dict[str, Any]] = {
    "windows": "within tolerance_s of the start",
    "matching": "by time; each reference takes the first right reply that is left",
    "source": "Qualcomm Interactive Cooking (arXiv 2511.21998), 5.1",
    "count": _count_cooking,
    "parameters": {"tolerance_s": Parameter(default=15.0), "right_accuracy": Parameter(default=1.0, maximum=1.0)},
}


def _count_omnipro(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    pairs = sorted(
        (abs(time_s - span.start_s), reply, number)
        for reply, time_s in enumerate(video.times_s)
        for number, span in enumerate(video.references)
    )
    replies = set[int]()
    is_right: dict[int, bool] = {}  # of each matched reference
    for distance_s, reply, number in pairs:
        if distance_s <= tolerance_s + ROUNDING and reply not in replies and number not in is_right:
            replies.add(reply)
            is_right[number] = video.accuracies[reply][number] >= right_accuracy
    num_references = len(video.references)
    sums = {
        "matched": len(is_right),
        "hits": sum(is_right.values()),
        "replies": len(video.times_s),
        "references": num_references,
    }
    return Counted(sums, tuple(float(is_right.get(number, False)) for number in range(num_references)))


def _summarize_omnipro(sums: Sums) -> dict[str, float]:
    content = sums["hits"] / sums["matched"] if sums["matched"] else math.nan
    time_f1 = score_hits({**sums, "hits": sums["matched"]})["f1"]
    return {**score_hits(sums), "time_f1": time_f1, "content_accuracy": content}


def _count_ovo(video: Video, *, tolerance_s: float, delay_s: float) -> Counted:
    num_references, num_replies = len(video.references), len(video.times_s)
    truth_s = [span.start_s + delay_s * (span.end_s > span.start_s) for span in video.references]
    is_hit = match_ovo(truth_s, video.times_s, tolerance_s=tolerance_s)
    sums = {
        "precision": sum(is_hit) / num_replies if num_replies else 0.0,
        "recall": sum(is_hit) / num_references if num_references else 0.0,
        "videos": bool(num_references),
    }
    return Counted(sums, tuple(map(float, is_hit)))


def _summarize_ovo(sums: Sums) -> dict[str, float]:
    means = divide_by("videos", precision="precision", recall="recall")(sums)
    return {**means, "f1": compute_f1(means["precision"], means["recall"])}


def _match_nearest(wanted_s: Sequence[float], found_s: Sequence[float], max_distance_s: float) -> list[bool]:
    """Return whether each time has its nearest found time in reach, in the same order; a taken one is not replaced."""
    is_matched = [False] * len(wanted_s)
    last = -1
    for number, time_s in enumerate(wanted_s if found_s else ()):
        distances_s = [abs(one - time_s) for one in found_s]
        nearest = distances_s.index(min(distances_s))
        if distances_s[nearest] < max_distance_s and nearest > last:
            is_matched[number] = True
            last = nearest
    return is_matched


def _count_qevd(video: Video, *, max_distance_s: float) -> Counted:
    starts_s = [span.start_s for span in video.references]
    is_met = _match_nearest(starts_s, video.times_s, max_distance_s)
    sums = {
        "hits": sum(is_met),
        "reply_hits": sum(_match_nearest(video.times_s, starts_s, max_distance_s)),
        "references": len(starts_s),
        "replies": len(video.times_s),
    }
    return Counted(sums, tuple(map(float, is_met)))


PROTOCOLS: Final = (
    Protocol(
        name="egoproactive",
        windows="the chunk of chunk_s that holds the start",
        matching="chunk by chunk: interrupt if it holds a reply, else silent",
        judge="none",
        aggregation="F1 of both labels over the chunks, 0 if undefined; their mean and geometric mean",
        source="EgoProactive (arXiv 2606.04970), scorer of the starter kit",
        main="macro_f1",
        count=_count_chunks,
        summarize=_summarize_chunks,
        parameters={"chunk_s": Parameter(default=8.0, minimum=0.1)},
    ),
    Protocol(
        name="interactive-cooking",
        judge="the right instruction; in a run the step of the update",
        aggregation="share of the instructions whose completion is recognised",
        main="ic_acc",
        summarize=divide_by("references", ic_acc="hits"),
        reads="completions",
        **_COOKING,
    ),
    Protocol(
        name="interactive-cooking-mistakes",
        judge="the right mistake",
        aggregation="precision over replies, recall over mistakes",
        main="f1",
        summarize=score_hits,
        reads="mistakes",
        **_COOKING,
    ),
    Protocol(
        name="omnipro",
        windows="within tolerance_s of the start",
        matching="one to one, the nearest pair of a video first",
        judge="by task: none, rules, or LLM, 3 of 1 to 5",
        aggregation="precision over replies, recall over references; wrong texts count in time_f1 alone",
        source="OmniPro (arXiv 2605.18577), metrics/online/scorer.py (16d0cc3)",
        main="f1",
        count=_count_omnipro,
        summarize=_summarize_omnipro,
        parameters={"tolerance_s": Parameter(default=3.0), "right_accuracy": Parameter(default=0.5, maximum=1.0)},
    ),
    Protocol(
        name="ovo-timing",
        windows="within tolerance_s of the true time: delay_s after the start of a span, or the instant",
        matching="by true time; each takes the first reply in reach that is left",
        judge="none",
        aggregation="mean precision and recall over videos, and their F1",
        source="ovo_timing.py in VideoChat3 (189754e)",
        main="f1",
        count=_count_ovo,
        summarize=_summarize_ovo,
        parameters={"tolerance_s": Parameter(default=OVO_TOLERANCE_S), "delay_s": Parameter(default=OVO_CLUE_DELAY_S)},
    ),
    Protocol(
        name="qevd-tf",
        windows="less than max_distance_s from the start",
        matching="recall: in order, the nearest reply of each reference, each once; precision: the reverse",
        judge="none",
        aggregation="precision over replies, recall over references",
        source="QEVD (arXiv 2407.08101), evaluation of FitCoach",
        main="f1",
        count=_count_qevd,
        summarize=score_hits,
        parameters={"max_distance_s": Parameter(default=1.5)},
    ),
)
