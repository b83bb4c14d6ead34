"""Scores of the dialogue state: the predicted updates and the predicted states.

Frames of turns are ``floor(time_s * fps)``. Delays are predicted minus reference time; negative is early. Two updates
at one frame count as two.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.engine.dialogue import STATES, apply_update, fill_legality, initial_state, parse_update
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.updates import TimedUpdate, UpdateMatch, pair_updates, reference_updates
from stepscope.eval.metrics.counts import Counts, count_among, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStates(Counts):
    """The frames of one step, in one or many videos, by the relation of its state to the reference's."""

    right: int = 0
    ahead: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DstCounts(Counts):
    """Counts of updates and states in one or many videos."""

    num_refs: int = 0
    num_gens: int = 0
    """Predicted updates, including malformed ones."""
    num_step_right: int = 0
    """References paired with a prediction of the same step."""
    num_transition_right: int = 0
    """References paired with a prediction of the same transition."""
    num_exact: int = 0
    """References paired with an equal prediction."""
    num_malformed: int = 0
    num_illegal: int = 0
    """Predictions of an unknown step, or that skip, repeat or go backwards."""
    delay_sum_s: float = 0.0
    """Sum of the delays of the exact updates, in seconds; then that of their absolute values."""
    abs_delay_sum_s: float = 0.0
    num_frames: int = 0
    num_frames_right: int = 0
    """Frames whose whole state equals the reference's."""
    num_cells: int = 0
    """Frames times steps."""
    num_cells_right: int = 0
    num_starts: int = 0
    """Steps that both sides start."""
    start_delay_sum_s: float = 0.0
    num_completions: int = 0
    complete_delay_sum_s: float = 0.0
    num_clips: int = 0
    """Videos in which either side has an update."""
    num_clips_exact: int = 0
    """Videos in which every reference and every prediction belongs to an exact pair."""
    legacy_pairs: int = 0
    """Updates zipped by position over the shorter list."""
    legacy_step_right: int = 0
    legacy_transition_right: int = 0
    legacy_exact: int = 0


def count_dst(outputs: Sequence[FrameOutput], sample: Sample, *, match: UpdateMatch | None = None) -> DstCounts:
    """Count one video.

    ``match`` is by default ``pair_updates(outputs, sample)``. A frame of the sample without an output counts as a wrong
    state; states after the sample's end do not count. Raises ``ValueError`` if the outputs' states have different steps
    from the sample's.
    """
    match = match or pair_updates(outputs, sample)
    return (
        _count_pairs(match, fps=sample.fps)
        + _count_legality(outputs, sample)
        + _count_states(outputs, sample)
        + _count_legacy(match.gen, match.ref)
    )


def summarize_dst(counts: DstCounts) -> dict[str, float]:
    """Return all scores of one video, or of a split from added counts; ``eval.metrics.definitions`` defines them.

    **Source**: DSTContentMetrics of the ProAssist fork; ``legacy_*`` are its own figures.
    """
    of = counts.num_frames + counts.num_gens  # 0 of a system without states, and of tasks without steps
    return {
        "dst_step_accuracy": ratio(counts.num_step_right, counts.num_refs),
        "dst_transition_accuracy": ratio(counts.num_transition_right, counts.num_refs),
        "dst_exact_match": ratio(counts.num_exact, counts.num_refs),
        "dst_precision": ratio(counts.num_exact, counts.num_gens),
        "dst_recall": ratio(counts.num_exact, counts.num_refs),
        "dst_f1": ratio(2 * counts.num_exact, counts.num_refs + counts.num_gens),
        "dst_delay_s": ratio(counts.delay_sum_s, counts.num_exact),
        "dst_abs_delay_s": ratio(counts.abs_delay_sum_s, counts.num_exact),
        "dst_num_references": count_among(counts.num_refs, of),
        "dst_num_predictions": count_among(counts.num_gens, of),
        "dst_num_exact": count_among(counts.num_exact, of),
        "dst_malformed": count_among(counts.num_malformed, of),
        "dst_illegal": count_among(counts.num_illegal, of),
        "dst_joint_goal_accuracy": ratio(counts.num_frames_right, counts.num_frames),
        "dst_timeline_score": ratio(counts.num_cells_right, counts.num_cells),
        "dst_start_delay_s": ratio(counts.start_delay_sum_s, counts.num_starts),
        "dst_complete_delay_s": ratio(counts.complete_delay_sum_s, counts.num_completions),
        "dst_clip_exact": ratio(counts.num_clips_exact, counts.num_clips),
        "legacy_dst_step_accuracy": ratio(counts.legacy_step_right, counts.legacy_pairs),
        "legacy_dst_transition_accuracy": ratio(counts.legacy_transition_right, counts.legacy_pairs),
        "legacy_dst_exact_match": ratio(counts.legacy_exact, counts.legacy_pairs),
    }


def boundary_delays_s(outputs: Sequence[FrameOutput], sample: Sample, *, reached: Sequence[str]) -> dict[str, float]:
    """Return, per step, the predicted minus the reference time of its first frame with one of the states ``reached``.

    With ``in_progress`` and ``completed`` these are the starts, with ``completed`` alone the completions, in seconds.
    A step is left out unless both sides reach the states, and if the initial state has already reached them.
    """
    predicted = {output.frame_index: output.dst_state for output in outputs}
    expected = dict(enumerate(reference_states(sample)))
    given, delays_s = initial_state(sample.steps, sample.initial_state), {}
    for step in sample.steps:
        gen, ref = (
            min((frame for frame, state in states.items() if state[step.id] in reached), default=None)
            for states in (predicted, expected)
        )
        if gen is not None and ref is not None and given[step.id] not in reached:
            delays_s[step.id] = (gen - ref) / sample.fps
    return delays_s


def _count_pairs(match: UpdateMatch, *, fps: float) -> DstCounts:
    gen, ref = match.gen, match.ref
    step_right = transition_right = 0
    delays_s = []
    for link in match.links:
        one, other = parse_update(gen[link.gen_index].text), parse_update(ref[link.ref_index].text)
        assert one is not None, "match_updates pairs no malformed text"
        assert other is not None, "a sample holds no malformed update"
        step_right += one.step_id == other.step_id
        transition_right += one.transition == other.transition
        if one == other:
            delays_s.append((gen[link.gen_index].frame_index - ref[link.ref_index].frame_index) / fps)
    return DstCounts(
        num_refs=len(ref),
        num_gens=len(gen),
        num_step_right=step_right,
        num_transition_right=transition_right,
        num_exact=len(delays_s),
        delay_sum_s=math.fsum(delays_s),
        abs_delay_sum_s=math.fsum(map(abs, delays_s)),
        num_clips=int(bool(ref or gen)),
        num_clips_exact=int(bool(ref or gen) and len(delays_s) == len(ref) == len(gen)),
    )


def _count_legality(outputs: Sequence[FrameOutput], sample: Sample) -> DstCounts:
    known = fill_legality(outputs, initial_state(sample.steps, sample.initial_state))
    kinds = [kind for output in known for kind in output.legality or ()]
    return DstCounts(num_malformed=kinds.count("malformed"), num_illegal=kinds.count("illegal"))


def reference_states(sample: Sample) -> list[Mapping[str, str]]:
    """Return the reference's state at every frame, after the updates of that frame."""
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    updates, states = list(reference_updates(sample)), []
    for frame in range(sample.num_frames):
        while updates and updates[0].frame_index <= frame:
            state = apply_update(state, updates.pop(0).text).state
        states.append(state)
    return states


def count_step_states(sample: Sample, outputs: Sequence[FrameOutput]) -> tuple[StepStates, ...]:
    """Return the frames of each step in which its state is right, ahead and behind."""
    ranks: Mapping[str, int] = {state: rank for rank, state in enumerate(STATES)}
    signs = [Counter[int]() for _ in sample.steps]
    for wanted, output in zip(reference_states(sample), outputs, strict=False):
        for step, found in zip(sample.steps, signs, strict=True):
            ahead = ranks[output.dst_state[step.id]] - ranks[wanted[step.id]]
            found[(ahead > 0) - (ahead < 0)] += 1
    return tuple(StepStates(right=found[0], ahead=found[1], behind=found[-1]) for found in signs)


def _count_states(outputs: Sequence[FrameOutput], sample: Sample) -> DstCounts:
    ids = [step.id for step in sample.steps]
    if different := next((output for output in outputs if set(output.dst_state) != set(ids)), None):
        raise ValueError(
            f"video {sample.video_id}, frame {different.frame_index}: the run has states of "
            f"{', '.join(different.dst_state)}, the sample has the steps {', '.join(ids)}; score the run with the "
            "steps it was made with"
        )
    if not ids:
        return DstCounts()
    predicted = {output.frame_index: output.dst_state for output in outputs}
    # per frame, the number of steps with the right state; a list of lists would take 300 MB for a day of frames
    num_right = [
        sum(predicted[frame][step_id] == state[step_id] for step_id in ids) if frame in predicted else 0
        for frame, state in enumerate(reference_states(sample))
    ]
    starts_s = boundary_delays_s(outputs, sample, reached=STATES[1:]).values()
    completions_s = boundary_delays_s(outputs, sample, reached=STATES[2:]).values()
    return DstCounts(
        num_frames=len(num_right),
        num_frames_right=num_right.count(len(ids)),
        num_cells=len(num_right) * len(ids),
        num_cells_right=sum(num_right),
        num_starts=len(starts_s),
        start_delay_sum_s=math.fsum(starts_s),
        num_completions=len(completions_s),
        complete_delay_sum_s=math.fsum(completions_s),
    )


def _count_legacy(gen: Sequence[TimedUpdate], ref: Sequence[TimedUpdate]) -> DstCounts:
    """Zip by position over the shorter list; the published parser accepts any two words around an arrow."""
    hits = []
    for one, other in zip(gen, ref, strict=False):
        ours, theirs = ([part.strip() for part in item.text.split("->", 1)] for item in (one, other))
        is_parsed = len(ours) == len(theirs) == 2
        hits.append((is_parsed and ours[0] == theirs[0], is_parsed and ours[1] == theirs[1]))
    return DstCounts(
        legacy_pairs=len(hits),
        legacy_step_right=sum(step for step, _ in hits),
        legacy_transition_right=sum(transition for _, transition in hits),
        legacy_exact=sum(step and transition for step, transition in hits),
    )


def _count(video: MatchedVideo) -> DstCounts:
    return count_dst(video.outputs, video.sample, match=video.updates) if video.has_states else DstCounts()


MEASURES = (Measure(name="dst", kind=DstCounts, count=_count, summarize=summarize_dst),)
