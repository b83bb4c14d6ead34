"""The classes of roots over a split: what would have prevented each, with controls and placebos.

An experiment *explains* a root if its gold pass makes every reference turn at the frame of the root right, without a
false trigger there, and if the experiment is *accepted* over the split:

- it fixes more of the wrong reference turns, with false triggers that it removes, than it breaks among the right ones;
- it adds no false trigger;
- this surplus is larger than that of each placebo of its kind;
- under gold history, at least as many turns are right as wrong, so that something is there to break.

Worked example. With the steps in the order done, 5 of 18 wrong turns are right and 0 of 259 right ones are wrong; with
the steps at random, 4 are right and 10 are wrong. The order is accepted: 5 - 0 exceeds 4 - 10. A change that fixes 1
turn and breaks 12 is not, whatever it does to one root.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stepscope.eval.diagnosis.experiments import KINDS, Experiment, Kind
from stepscope.eval.diagnosis.gold import GoldResult
from stepscope.eval.diagnosis.videos import VideoDiagnosis
from stepscope.eval.metrics.counts import NO_INTERVAL, Counts, Interval, Pool, bootstrap, ratio
from stepscope.eval.runs.roots import Root

HISTORY: Final = "history"
UNEXPLAINED: Final = "unexplained"
CLASSES: Final[tuple[str, ...]] = (HISTORY, *KINDS, UNEXPLAINED)
"""All classes, in the order in which they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an experiment did to the reference turns of a split, under gold history."""

    name: str
    kind: Kind
    is_placebo: bool
    num_videos: int
    """Videos in which it changed something."""
    fixed: int
    """Wrong turns that are right."""
    broken: int
    """Right turns that are wrong."""
    added: int
    """Frames with a new false trigger."""
    removed: int
    """Frames whose false trigger is gone."""
    is_accepted: bool
    num_tokens: int

    @property
    def surplus(self) -> int:
        """Turns that it fixes and false triggers that it removes, minus the turns that it breaks."""
        return self.fixed + self.removed - self.broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The roots of one class, or the failures that are consequences."""

    number: int
    share: float
    """Of all roots, or of all failures; nan without any."""
    interval: Interval
    """Its 95 % interval by bootstrap over videos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The diagnosis of the videos of a split."""

    videos: tuple[VideoDiagnosis, ...]
    """Those without an error; their roots have classes."""
    effects: tuple[Effect, ...]
    shares: Mapping[str, Share]
    """By class, in the order of ``CLASSES``; only those with roots."""
    consequences: Share
    """Failures that are consequences, and their share of all failures."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """All roots, in the order of the videos, then by time."""
        return tuple(root for video in self.videos for root in video.roots)

    @property
    def num_failures(self) -> int:
        """Failures of the run."""
        return sum(len(video.failures) for video in self.videos)

    def rows(self) -> list[dict[str, str | float]]:
        """Return a row per failure, for CSV."""
        rows: list[dict[str, str | float]] = []
        for video in self.videos:
            for failure in video.failures:
                found = video.roots[failure.root]
                rows.append(
                    {
                        "video_id": video.video_id,
                        "time_s": failure.time_s,
                        "kind": failure.kind,
                        "root_time_s": found.time_s,
                        "is_consequence": str(failure.is_consequence).lower(),
                        "class": HISTORY if failure.is_consequence else found.cause,
                        "root_class": found.cause,
                        "fixed_by": "; ".join(found.fixed_by),
                        "num_consequences": found.num_consequences,
                    }
                )
        return rows


def classify(videos: Sequence[VideoDiagnosis], experiments: Sequence[Experiment]) -> Diagnosis:
    """Return the classes of the roots of videos, by experiments that were run on each of them."""
    videos = tuple(video for video in videos if not video.error)
    num_right = sum(len(video.gold.right) for video in videos)
    has_controls = num_right >= sum(len(video.gold.wrong) for video in videos)
    effects = tuple(_count(experiment, videos) for experiment in experiments)
    accepted = tuple(effect for effect in effects if has_controls and _is_accepted(effect, effects))
    videos = tuple(
        replace(video, roots=tuple(_classify(video, root, accepted, effects) for root in video.roots))
        for video in videos
    )
    names, shares = {effect.name for effect in accepted}, _count_shares(videos)
    return Diagnosis(
        videos=videos,
        effects=tuple(replace(effect, is_accepted=effect.name in names) for effect in effects),
        shares={name: shares[name] for name in CLASSES if shares[name].number},
        consequences=shares["consequences"],
    )


def _count(experiment: Experiment, videos: Sequence[VideoDiagnosis]) -> Effect:
    pairs = [(video.gold, video.results[experiment.name]) for video in videos if experiment.name in video.results]
    return Effect(
        name=experiment.name,
        kind=experiment.kind,
        is_placebo=experiment.is_placebo,
        num_videos=len(pairs),
        fixed=sum(len({*gold.wrong} - {*result.wrong}) for gold, result in pairs),
        broken=sum(len({*gold.right} & {*result.wrong}) for gold, result in pairs),
        added=sum(len({*result.false_triggers} - {*gold.false_triggers}) for gold, result in pairs),
        removed=sum(len({*gold.false_triggers} - {*result.false_triggers}) for gold, result in pairs),
        is_accepted=False,
        num_tokens=sum(result.num_tokens for _, result in pairs),
    )


def _is_accepted(effect: Effect, effects: Sequence[Effect]) -> bool:
    placebos = [other.surplus for other in effects if other.is_placebo and other.kind == effect.kind]
    return not effect.is_placebo and effect.added == 0 and effect.surplus > max((0, *placebos))


def _classify(video: VideoDiagnosis, root: Root, accepted: Sequence[Effect], effects: Sequence[Effect]) -> Root:
    right = [effect for effect in effects if effect.name in video.results]
    right = [effect for effect in right if _is_right(root, video.results[effect.name])]
    fixes = [effect for effect in right if effect in accepted]
    kinds = {effect.kind for effect in fixes}
    # ``KINDS`` has the order in which they are tried: the first that explains counts.
    cause = min(kinds, key=KINDS.index, default=UNEXPLAINED)
    placebos = [f"{effect.name} (placebo)" for effect in right if effect.is_placebo and effect.kind in kinds]
    fixed_by = (*(effect.name for effect in fixes), *placebos)
    if _is_right(root, video.gold):
        cause = HISTORY
        fixed_by = ("gold history",)
    return replace(root, cause=cause, fixed_by=fixed_by)


def _is_right(root: Root, result: GoldResult) -> bool:
    return not {*root.references} & {*result.wrong} and root.frame not in result.false_triggers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers(Counts):
    """Roots of one video by class, its failures, and those that are consequences."""

    by_class: tuple[float, ...] = (0.0,) * len(CLASSES)
    num_failures: float = 0.0
    num_consequences: float = 0.0


def _score(counts: _Numbers) -> dict[str, float]:
    total = sum(counts.by_class)
    shares = {name: ratio(number, total) for name, number in zip(CLASSES, counts.by_class, strict=True)}
    return {**shares, "consequences": ratio(counts.num_consequences, counts.num_failures)}


def _count_shares(videos: Sequence[VideoDiagnosis]) -> dict[str, Share]:
    """Return the roots by class, and the failures that are consequences under ``consequences``."""
    rows = [
        _Numbers(
            by_class=tuple(float(sum(root.cause == name for root in video.roots)) for name in CLASSES),
            num_failures=float(len(video.failures)),
            num_consequences=float(sum(failure.is_consequence for failure in video.failures)),
        )
        for video in videos
    ]
    pool = Pool(rows, _Numbers)
    total, intervals = pool.total(), bootstrap(pool, _score)
    numbers = {**dict(zip(CLASSES, total.by_class, strict=True)), "consequences": total.num_consequences}
    return {
        name: Share(number=int(numbers[name]), share=share, interval=intervals.get(name, NO_INTERVAL))
        for name, share in _score(total).items()
    }
