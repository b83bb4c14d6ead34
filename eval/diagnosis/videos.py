"""The diagnosis of one video: its chain of corrections, its gold pass, and the experiments on top of it."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from stepscope.engine.errors import EngineError
from stepscope.engine.io.json_records import Count
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput, frame_at, is_same
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.diagnosis.chain import Chain, CorrectedFrame, Judge, correct, identify
from stepscope.eval.diagnosis.experiments import Experiment, Situation, Variant
from stepscope.eval.diagnosis.gold import GoldResult, judge_probes, make_gold_history
from stepscope.eval.matching.turns import Encode
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import digest_sample
from stepscope.eval.runs.roots import Root, TracedFailure, TracedVideo

NUM_SEEDS: Final = 4
"""Further seeds at which the consequences of a root are looked for, where texts are sampled."""
Embed = Callable[[Sample, float], Iterable[FrameFeatures]]
"""Embeds the frames of a sample again, each some seconds later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoDiagnosis(TracedVideo):
    """The diagnosis of one video, or why there is none."""

    num_failures: tuple[Count, ...] = ()
    """Failures of the run, and after each correction."""
    gold: GoldResult = field(default_factory=GoldResult)
    results: Mapping[str, GoldResult] = field(default_factory=dict)
    """Gold passes of the experiments by name, without ``right``; an experiment that changes nothing here has none."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why an experiment could not be run, by name."""
    num_run_tokens: Count = 0
    """Tokens of the run, the unit of all costs."""
    num_chain_tokens: Count = 0
    num_differing: Count = 0
    """Frames at which the run that was made again differs from that of the run folder."""


def diagnose_video(
    recording: Recording,
    sample: Sample,
    experiments: Sequence[Experiment],
    *,
    encode: Encode,
    scoring: ScoreSettings,
    embed: Embed | None = None,
) -> Iterator[str | VideoDiagnosis]:
    """Diagnose a finished run of a video; yield what is done next, and last the diagnosis.

    Without ``embed``, experiments with other frames are left out. Where texts are sampled, the consequences of a root
    are looked for at further seeds, with and without its correction. Raises ``ValueError`` for a sample without a
    reference, and as ``correct``.
    """
    if not sample.has_reference:
        raise ValueError(f"{sample.video_id} has no reference, so it has no diagnosis, only evidence and what-if")
    has_updates = recording.config.policy.has_updates
    judge_run = _make_judge(recording, sample, encode, scoring)
    yield "chain"
    chain = yield from correct(recording, sample, judge_run)
    yield "gold history"
    num_frames = len(recording.outputs)
    gold = recording.branch(make_gold_history(sample, num_frames=num_frames))
    judge = partial(judge_probes, encode=encode, has_updates=has_updates)
    result = replace(judge(sample, list(gold.run())), num_tokens=gold.counts.tokens)
    situation = Situation(
        has_cuts=any(output.refreshed for output in gold.outputs),
        max_tokens=sum(output.forgotten.tokens for output in gold.outputs if output.forgotten)
        + max(output.cache_tokens for output in gold.outputs),
    )
    results, problems = yield from _run_experiments(experiments, gold, result, sample, situation, judge, embed)
    roots, traced = _trace_failures(chain, sample)
    if recording.config.do_sample:
        yield "other seeds"
        keys = [set[tuple[object, ...]]() for _ in roots]
        for failure, trace in zip(chain.failures, traced, strict=True):
            if trace.is_consequence:
                keys[trace.root].add(identify(failure))
        tried = zip(roots, chain.corrections, keys, strict=True)
        roots = tuple(_try_seeds(recording, root, correction, own, judge_run) for root, correction, own in tried)
    yield VideoDiagnosis(
        video_id=sample.video_id,
        source=digest_sample(sample),
        num_failures=chain.num_failures,
        roots=roots,
        failures=traced,
        gold=result,
        results=results,
        problems=problems,
        num_run_tokens=recording.counts.tokens,
        num_chain_tokens=chain.num_tokens,
    )


def _run_experiments(
    experiments: Sequence[Experiment],
    gold: Recording,
    result: GoldResult,
    sample: Sample,
    situation: Situation,
    judge: Callable[[Sample, Sequence[FrameOutput]], GoldResult],
    embed: Embed | None,
) -> Generator[str, None, tuple[Mapping[str, GoldResult], Mapping[str, str]]]:
    """Return the gold passes of the experiments, and why others could not be run; yield the name of each first."""
    results, problems = dict[str, GoldResult](), dict[str, str]()
    start = Variant(sample=sample, config=gold.config)
    for experiment in experiments:
        yield experiment.name
        variant = experiment.vary(start, situation)
        if variant is None:
            continue
        try:
            branch = _branch(gold, variant, start, embed)
            found = judge(variant.sample, list(branch.run()))
        except (EngineError, ValueError) as error:
            problems[experiment.name] = str(error)
            continue
        results[experiment.name] = replace(
            found,
            right=(),  # left out, to keep the file small
            wrong=tuple(sorted({*result.right, *result.wrong} - {*found.right})),
            num_tokens=branch.counts.tokens,
            false_triggers=tuple(
                sorted({int(frame * sample.fps / variant.sample.fps) for frame in found.false_triggers})
            ),
        )
    return results, problems


def count_differing(outputs: Sequence[FrameOutput], others: Sequence[FrameOutput]) -> int:
    """Return the number of frames at which two runs of a video differ in a text or the state."""
    differing = sum(not is_same(output, other) for output, other in zip(outputs, others, strict=False))
    return differing + abs(len(outputs) - len(others))


def _make_judge(recording: Recording, sample: Sample, encode: Encode, scoring: ScoreSettings) -> Judge:
    def judge(outputs: Sequence[FrameOutput]) -> JudgedVideo:
        return analyze_video(
            sample,
            outputs,
            encode=encode,
            dataset=scoring.dataset,
            zero_cost=scoring.zero_cost,
            has_states=recording.config.policy.has_updates,
        ).judged

    return judge


def _try_seeds(
    recording: Recording, root: Root, correction: CorrectedFrame, keys: Set[tuple[object, ...]], judge: Judge
) -> Root:
    """Return a root with the shares of its consequences at other seeds, without and with its correction."""
    if not keys:
        return root
    shares = []
    for change in (correction.kept, correction.corrected):
        found = 0
        for seed in range(recording.config.seed + 1, recording.config.seed + 1 + NUM_SEEDS):
            branch = recording.branch(replace(change, config=replace(recording.config, seed=seed)))
            failures = judge(list(branch.run())).failures
            found += len(keys & {identify(failure) for failure in failures})
        shares.append(found / (NUM_SEEDS * len(keys)))
    return replace(root, kept_share=shares[0], corrected_share=shares[1])


def _branch(gold: Recording, variant: Variant, start: Variant, embed: Embed | None) -> Recording:
    """Return the gold pass of a variant, which has yet to run. Raises ``ValueError`` without the frames that it needs.

    A variant with the same frames is a branch of the gold pass; with others it is a new recording.
    """
    sample, task = variant.sample, build_task(variant.sample)
    if variant.shift_s == 0 and sample.fps == start.sample.fps:
        history = make_gold_history(sample, num_frames=len(gold.outputs))
        return gold.branch(replace(history, task=task, config=variant.config))
    if embed is None:
        raise ValueError("its frames cannot be read again, since only features are known")
    frames = list(embed(sample, variant.shift_s))
    checkpoint, config = gold.checkpoint, variant.config
    branch = Recording(checkpoint, frames, task=task, config=config)
    branch.intervention = make_gold_history(sample, num_frames=len(frames))
    return branch


def _trace_failures(chain: Chain, sample: Sample) -> tuple[tuple[Root, ...], tuple[TracedFailure, ...]]:
    """Return the roots of a run, and each of its failures with the last correction that removed it."""
    keys = [identify(failure) for failure in chain.failures]
    causes = dict[int, tuple[int, bool]]()
    for number, correction in enumerate(chain.corrections):
        own = {identify(failure) for failure in correction.failures}
        vanished = {identify(failure) for failure in correction.vanished}
        for place, key in enumerate(keys):
            if key in own or key in vanished:
                causes[place] = (number, key not in own)
    traced = tuple(
        TracedFailure(
            kind=failure.kind,
            time_s=failure.frame_index / sample.fps,
            root=causes[place][0],
            is_consequence=causes[place][1],
        )
        for place, failure in enumerate(chain.failures)
    )
    roots = tuple(
        Root(
            frame=correction.frame,
            time_s=correction.frame / sample.fps,
            references=tuple(
                place
                for place, turn in enumerate(sample.turns)
                if turn.role != "user" and frame_at(turn.time_s, sample.fps) == correction.frame
            ),
            kinds=tuple(dict.fromkeys(failure.kind for failure in correction.failures)),
            num_consequences=sum(one.root == number and one.is_consequence for one in traced),
        )
        for number, correction in enumerate(chain.corrections)
    )
    return roots, traced
