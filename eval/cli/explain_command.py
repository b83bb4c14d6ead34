"""``stepscope explain``: which failures of a run are roots, what follows from each, and what would prevent them."""

import math
import sys
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Final

from tqdm import tqdm

from stepscope.engine.evidence.records import Evidence
from stepscope.engine.io.files import read_text
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.plurals import format_count
from stepscope.engine.records import frame_at
from stepscope.eval.cli.options import ExplainOptions
from stepscope.eval.cli.tables import BAR_DELAY_S
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.diagnosis.classes import Diagnosis, Effect, Share
from stepscope.eval.diagnosis.evidence import explain_decisions
from stepscope.eval.diagnosis.experiments import read_experiments
from stepscope.eval.diagnosis.folder import diagnose_run, find_stale, read_diagnosis
from stepscope.eval.diagnosis.plan import Plan, digest_text, find_model, make_plan
from stepscope.eval.runs.folder import UNSCORED, RunFolder
from stepscope.eval.runs.roots import Root
from stepscope.eval.runs.worker_messages import WorkerConfig

EVIDENCE_COST: Final = 6.0
"""Cost of the evidence for a decision, in times that its video takes up to it: ``benchmarks.engine.evidence``."""
NUM_SHOWN: Final = 3
"""Pictures, patches and texts that are printed of a decision."""


def explain(options: ExplainOptions) -> int:
    """Diagnose a run folder and print the roots by class; return 1 if a video has no diagnosis."""
    if options.time is not None and not options.video:
        raise ValueError("--time is a time of one video; name it with --video")
    if options.time is not None and not 0 <= options.time < math.inf:
        raise ValueError(f"--time must be at least 0 s; got {options.time:g}")
    run = RunFolder(options.run)
    split = read_split(run.split_path(), videos=options.videos)
    given = WorkerConfig(
        checkpoint=options.checkpoint or str((run.settings() or {}).get("checkpoint", "")),
        heads=options.heads,
        features=options.features,
    )
    if options.evidence and options.time is not None:
        sample = next((entry for entry in split.entries if entry.video_id == options.video), None)
        if not isinstance(sample, Sample):
            raise ValueError(f"{options.video} is not a video of {split.path}" if sample is None else sample.reason)
        return _show_evidence(options, split, given, [(sample, [frame_at(options.time, sample.fps)])])
    own = () if options.experiments is None else read_experiments(options.experiments)
    plan = make_plan(
        options.run,
        split,
        given,
        video_id=options.video,
        own=own,
        own_digest=digest_text("" if options.experiments is None else read_text(options.experiments)),
        budget=options.max_cost,
    )
    _print_plan(options.run, plan)
    if reason := find_stale(options.run, plan):
        print(f"the diagnosis in {options.run} is stale, since it has {reason}; it is made again", file=sys.stderr)
    num_failed = _show_progress(options, plan)
    diagnosis = read_diagnosis(options.run, plan)
    print(_format(diagnosis, plan, num_videos=len(split.entries)))
    if options.video:
        _print_video(diagnosis, options)
    print(f"each failure: {options.run}/diagnosis.csv; all results: {options.run}/diagnosis.json")
    if options.evidence:
        num_failed += _show_evidence(options, split, given, _choose_roots(diagnosis, plan, budget=options.max_cost))
    has_changed = any(reason not in UNSCORED for reason in plan.errors.values())
    return 1 if num_failed or has_changed else 0


def _choose_roots(found: Diagnosis, plan: Plan, *, budget: float) -> list[tuple[Sample, list[int]]]:
    """Return the frames of the roots with the most consequences, by video, within a budget in runs; print the cost."""
    frames = {sample.video_id: list[int]() for sample in plan.samples}
    num_frames = sum(sample.num_frames for sample in plan.samples)
    roots = [(video.video_id, root) for video in found.videos if video.video_id in frames for root in video.roots]
    roots.sort(key=lambda one: -one[1].num_consequences)
    costs = [0.0, *accumulate(EVIDENCE_COST * (root.frame + 1) / num_frames for _, root in roots)]
    number = bisect_right(costs, budget) - 1
    for video_id, root in roots[:number]:
        frames[video_id].append(root.frame)
    all_of_them = f"; --max-cost {math.ceil(costs[-1])} explains all" if number < len(roots) else ""
    print(f"evidence for {number} of {format_count(len(roots), 'root')}, about {costs[number]:.1f} runs{all_of_them}")
    return [(sample, frames[sample.video_id]) for sample in plan.samples]


def _show_evidence(
    options: ExplainOptions, split: Split, given: WorkerConfig, decisions: Sequence[tuple[Sample, Sequence[int]]]
) -> int:
    """Explain decisions and print each; return 1 if one has no evidence."""
    worker_config, _ = find_model(options.run, split, given)
    steps = explain_decisions(options.run, worker_config, decisions, options.devices)
    has_failed, is_written = False, False
    for step in steps:
        fps = next(sample.fps for sample, _ in decisions if sample.video_id == step.video_id)
        place = f"{step.video_id} at {step.frame / fps:g} s"
        if step.evidence is None:
            print(f"failed: {place}: {step.error}", file=sys.stderr)
            has_failed = True
        else:
            print("\n".join(_format_evidence(place, step.evidence, fps)), flush=True)
            is_written = True
    if is_written:
        print(f"all evidence: {options.run}/*.evidence.json")
    return int(has_failed)


def _format_evidence(place: str, found: Evidence, fps: float) -> list[str]:
    """Return the lines on one decision: its log-odds, and the pictures, patches and texts that move them most."""
    decision = found.target if found.contrast is None else f"{found.contrast.written} not {found.contrast.expected}"
    needed = f", needed {found.threshold:+.2f}" if found.threshold else ""
    number = found.fewest_last_frames
    kept = f"kept by the last {number} of" if number else "kept without any of"
    frames = [(frame.log_odds or 0.0, f"{frame.frame_index / fps:g} s") for frame in found.frames]
    patches = [(one.log_odds, f"row {one.row + 1} column {one.column + 1}") for one in found.patches]
    texts = [(one.log_odds, f"{one.change} {short_repr(one.text)}") for one in found.texts]
    lines = [
        f"{place}: {decision}, log-odds {found.log_odds:+.2f}{needed} (random weights {found.random_log_odds:+.2f})",
        f"  {kept} {format_count(len(frames), 'picture')}",
        f"  pictures: {_format_largest(frames)}",
    ]
    if found.patches_frame is not None:
        lines.append(f"  patches of {found.patches_frame / fps:g} s, of 8 x 8: {_format_largest(patches)}")
    return [*lines, f"  texts: {_format_largest(texts)}"] if texts else lines


def _format_largest(values: Sequence[tuple[float, str]]) -> str:
    largest = sorted(values, key=lambda value: -abs(value[0]))[:NUM_SHOWN]
    return ", ".join(f"{name} {value:+.2f}" for value, name in largest)


def _print_plan(run: Path, plan: Plan) -> None:
    """Print the estimated cost, and what it leaves out."""
    print(f"{format_count(len(plan.samples), 'video')} of {run}, {plan.describe_cost()}")
    if left_out := plan.describe_left_out("--max-cost"):
        print(f"left out by --max-cost: {left_out}")
    for video_id, reason in plan.errors.items():
        print(f"left out: {video_id}: {reason}", file=sys.stderr)


def _show_progress(options: ExplainOptions, plan: Plan) -> int:
    """Diagnose the videos with a progress bar; return the number of those that failed."""
    num_failed = 0
    steps = diagnose_run(options.run, plan, devices=options.devices)
    with closing(steps), tqdm(total=len(plan.samples), unit="video", dynamic_ncols=True, delay=BAR_DELAY_S) as bar:
        for step in steps:
            if isinstance(step, str):
                bar.set_postfix_str(step, refresh=False)
                continue
            bar.update()
            if step.error:
                num_failed += 1
                bar.write(f"failed: {step.video_id}: {step.error}", file=sys.stderr)
            elif step.num_differing:
                number = format_count(step.num_differing, "frame")
                bar.write(f"warning: {step.video_id}: {number} differ from the run folder", file=sys.stderr)
    return num_failed


def _format(found: Diagnosis, plan: Plan, *, num_videos: int) -> str:
    """Return the tables of roots by class and of experiments."""
    number, of_roots = len(found.roots), max(len(found.roots), 1)
    lines = [
        "",
        f"{format_count(found.num_failures, 'failure')} of {len(found.videos)} of {format_count(num_videos, 'video')}: "
        f"{found.num_failures - found.consequences.number} at {format_count(number, 'root')}, "
        f"{found.consequences.number} consequences ({_percent(found.consequences)}), "
        f"{found.consequences.number / of_roots:.1f} per root",
        *_list_largest(found),
        "",
        f"{'class of the root':<24}{'roots':>6}  share, 95 % interval over videos",
    ]
    lines += [f"{name:<24}{share.number:>6}  {_percent(share)}" for name, share in found.shares.items()]
    num_right = sum(len(video.gold.right) for video in found.videos)
    num_wrong = sum(len(video.gold.wrong) for video in found.videos)
    lines += [
        "",
        f"{'experiment, under gold history':<40}{f'fixed of {num_wrong}':>13}{f'broken of {num_right}':>15}"
        f"{'false triggers':>16}  result",
    ]
    lines += [_format_effect(effect) for effect in found.effects if effect.num_videos]
    unchanged = [one.name for one in found.effects if one.kind == "own" and not one.is_placebo and not one.num_videos]
    lines += [f"changes nothing in any video: {name}" for name in unchanged]
    problems = {name: text for video in found.videos for name, text in video.problems.items()}
    lines += [f"not run in some videos: {name}: {text}" for name, text in problems.items()]
    return "\n".join([*lines, ""])


def _list_largest(found: Diagnosis) -> list[str]:
    """Return a line on the roots with the most consequences, if any has some."""
    roots = [(root.num_consequences, video.video_id, root) for video in found.videos for root in video.roots]
    largest = sorted((one for one in roots if one[0]), key=lambda one: -one[0])[:NUM_SHOWN]
    texts = [f"{video_id} {root.time_s:g} s ({number})" for number, video_id, root in largest]
    return [f"most consequences: {', '.join(texts)}"] if texts else []


def _format_effect(effect: Effect) -> str:
    result = "placebo" if effect.is_placebo else "explains" if effect.is_accepted else "explains nothing"
    return f"{effect.name:<40}{effect.fixed:>13}{effect.broken:>15}{f'-{effect.removed} +{effect.added}':>16}  {result}"


def _describe_seeds(root: Root) -> str:
    """Return how often the consequences of a root happen at other seeds; nothing where texts are not sampled."""
    if root.kept_share is None or root.corrected_share is None:
        return ""
    return f"; at other seeds {root.kept_share:.0%} of these happen, {root.corrected_share:.0%} with its correction"


def _percent(share: Share) -> str:
    ends = share.interval
    text = f"{share.share:.0%}" if share.share == share.share else "undefined"
    return text if ends.low != ends.low else f"{text} [{ends.low:.0%}, {ends.high:.0%}]"


def _print_video(found: Diagnosis, options: ExplainOptions) -> None:
    """Print the failures of ``--video``, or the one nearest to ``--time``."""
    videos = [video for video in found.videos if video.video_id == options.video]
    failures = [(failure, video.roots[failure.root]) for video in videos for failure in video.failures]
    if options.time is not None and failures:
        nearest = options.time
        failures = [min(failures, key=lambda found: abs(found[0].time_s - nearest))]
        if (time_s := failures[0][0].time_s) != nearest:
            print(f"{options.video} has no failure at {nearest:g} s; the nearest is at {time_s:g} s")
    for failure, root in failures:
        origin = f"follows from {root.time_s:g} s" if failure.is_consequence else "is a root"
        fixes = "; ".join(root.fixed_by) or "nothing that was tried"
        print(
            f"{failure.time_s:g} s, {failure.kind}: {origin}, {root.cause}, prevented by {fixes}; "
            f"that root takes along {root.num_consequences} more{_describe_seeds(root)}"
        )
    if not failures:
        print(f"{options.video} has no failure")
