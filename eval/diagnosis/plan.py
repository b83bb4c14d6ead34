"""The plan of the diagnosis of a run folder: its videos, and the experiments that fit a budget."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from stepscope.engine.config import StreamConfig
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.diagnosis.experiments import Experiment, Situation, Variant, choose_affordable, list_experiments
from stepscope.eval.diagnosis.recordings import DiagnosisConfig
from stepscope.eval.reports.scoring import read_run_scoring
from stepscope.eval.runs.batch import build_run_settings
from stepscope.eval.runs.folder import RunFolder, explain_unscored, is_outcome_of, read_stream_config
from stepscope.eval.runs.output_folder import describe_changes, find_changed_settings, with_defaults
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, RunDiagnosis, read_run_diagnosis
from stepscope.eval.runs.worker_messages import WorkerConfig, WorkerSpec

CHAIN_COST: Final = {"answer": 2.0}
"""Estimated cost of the chain in runs by the source of the decisions; 0.6 for others."""
GOLD_COST: Final = 0.7
_MODEL: Final = ("model_digest", "heads_digest")
LISTED: Final = frozenset(experiment.name for experiment in list_experiments())
"""Names of all experiments but the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a diagnosis will do, and its estimated costs in runs of the videos."""

    work: DiagnosisConfig
    settings: Mapping[str, Any]
    """What the diagnosis depends on, apart from the samples."""
    samples: tuple[Sample, ...]
    left_out: Mapping[str, float]
    """Experiments over the budget, with their costs."""
    experiments: tuple[Experiment, ...]
    """All whose results the diagnosis will have, of which ``work`` has those that are left to run."""
    pending: tuple[Sample, ...]
    """Those of ``samples`` that are left to explain."""
    base_cost: float
    """Of the run again, the chain and the gold pass."""
    experiment_cost: float
    """Of the experiments of ``work``."""
    whole_cost: float
    """With all experiments."""
    errors: Mapping[str, str]
    """Videos that have no diagnosis, with the reasons."""

    def describe_cost(self) -> str:
        """Return the estimated cost in words, after the number of videos."""
        if not self.pending:
            return "explained already: nothing is left to run"
        some = f"{len(self.pending)} of them left to explain, " if len(self.pending) < len(self.samples) else ""
        cost, each = self.base_cost + self.experiment_cost, "it" if len(self.samples) == 1 else "each"
        return (
            f"{some}about {cost:.1f} runs of {each}: the run again, its chain of corrections and its gold pass "
            f"{self.base_cost:.1f}, experiments {self.experiment_cost:.1f}"
        )

    def describe_left_out(self, limit: str) -> str:
        """Return the experiments over the budget with their costs, then the ``limit`` with which none is over it."""
        names = ", ".join(f"{name} ({cost:.1f})" for name, cost in self.left_out.items())
        return f"{names}; {limit} {math.ceil(self.whole_cost)} runs all" if names else ""


def make_plan(
    run: Path,
    split: Split,
    given: WorkerConfig | None = None,
    *,
    video_id: str = "",
    own: Sequence[Experiment] = (),
    own_digest: str = "",
    budget: float,
) -> Plan:
    """Return what a diagnosis of a run folder will do, with at most a ``budget`` in runs.

    ``given`` names the model, by default that of the run; its settings are those of the run.

    Raises:
        ValueError: Nothing can be run again, the run is stale, or the budget is too small.
        EngineError: The checkpoint cannot be identified.
    """
    folder = RunFolder(run)
    worker_config, settings = find_model(run, split, given)
    config = worker_config.config
    samples, errors = _select(folder, split, video_id)
    experiments = list_experiments(own)
    _check_steps(own, split)
    costs = _estimate(folder, samples, experiments, config)
    base_cost = round(1 + CHAIN_COST.get(config.policy.source, 0.6) + GOLD_COST, 3)
    if not base_cost <= budget:  # also for nan
        raise ValueError(f"the chain and the gold pass alone cost about {base_cost:.1f} runs; allow a higher cost")
    scoring = read_run_scoring(folder)
    identity = {
        **{name: settings.get(name) for name in _MODEL},
        "config": with_defaults(settings)["config"],
        **asdict(scoring),
    }
    chosen = choose_affordable(experiments, costs, budget=budget, base_cost=base_cost)
    known = _read_known(run, identity)
    if known is not None:
        chosen = _keep_known(run, known, experiments, chosen, own_digest, is_one=bool(video_id))
    current = _list_current(folder, known, samples, chosen)
    pending = tuple(sample for sample in samples if current.get(sample.video_id) != own_digest)
    # results that are there stay: then the user's own experiments alone are run, on the chain and the gold pass again
    adds_own = all(sample.video_id in current for sample in pending)
    left = tuple(experiment for experiment in chosen if experiment.kind == "own" or not adds_own)
    return Plan(
        work=DiagnosisConfig(
            **{field.name: getattr(worker_config, field.name) for field in fields(worker_config)},
            experiments=left,
            scoring=scoring,
        ),
        settings={**identity, "experiments": [experiment.name for experiment in chosen], "own": own_digest},
        samples=samples,
        experiments=chosen,
        pending=pending,
        left_out={experiment.name: costs[experiment.name] for experiment in experiments if experiment not in chosen}
        if known is None or not video_id  # else it has the experiments of its run, whatever the budget
        else {},
        base_cost=base_cost,
        experiment_cost=sum(costs[experiment.name] for experiment in left),
        whole_cost=base_cost + sum(costs.values()),
        errors=errors,
    )


def find_model(run: Path, split: Split, given: WorkerConfig | None) -> tuple[WorkerConfig, Mapping[str, Any]]:
    """Return what streams the videos of a run folder again, and the settings of the run.

    ``given`` names the model, by default that of the run. Raises ``ValueError`` if nothing can be run again, or with
    another model.
    """
    settings = RunFolder(run).settings()
    if settings is None:
        raise ValueError(f"{run} is not a run folder; give a folder of `stepscope eval`")
    if settings.get("recorded") is not None or "imported" in settings or not settings.get("model_digest"):
        raise ValueError(
            f"{run} was recorded or imported, without a model that StepScope has: nothing can be run again"
        )
    work = replace(
        given or WorkerConfig(checkpoint=str(settings["checkpoint"])),
        batch_size=1,
        config=read_stream_config(settings, fps=StreamConfig().fps),
        quantize=settings.get("quantize", "none"),
        frame_pixels=settings.get("frame_pixels"),
        hardware_decoding=settings.get("hardware_decoding", "off"),
    )
    now = build_run_settings(split, work, [WorkerSpec(device="cpu")])
    if changed := find_changed_settings(settings, now, _MODEL):
        changes = describe_changes(changed, settings, now)
        raise ValueError(f"{run} is stale, since it has {changes}; run it again, or give its own model")
    return work, settings


def _check_steps(own: Sequence[Experiment], split: Split) -> None:
    """Raise ``ValueError`` for a step that no video has."""
    known = {name for sample in split.samples for step in sample.steps for name in (step.id, step.name)}
    for experiment in own:
        if unknown := [step for step in experiment.steps if step not in known]:
            raise ValueError(f"{experiment.name}.steps: there is no step {unknown[0]}; use its id or its name")


def _read_known(run: Path, identity: Mapping[str, Any]) -> RunDiagnosis | None:
    """Return the diagnosis that is there; None without one, or if it is of another model or of other settings."""
    found, plain = read_run_diagnosis(run), json.loads(json.dumps(dict(identity)))
    is_same = found is not None and all(found.settings.get(name) == value for name, value in plain.items())
    return found if is_same else None


def _keep_known(
    run: Path,
    found: RunDiagnosis,
    experiments: Sequence[Experiment],
    chosen: tuple[Experiment, ...],
    own_digest: str,
    *,
    is_one: bool,
) -> tuple[Experiment, ...]:
    """Return the experiments of the diagnosis that is there, if they are more than the chosen ones, or for one video.

    The user's own are added to them. Raises ``ValueError`` if the chosen ones would drop some of its results.
    """
    remedy = f"delete {run / DIAGNOSIS_FILE} to begin again"
    if found.settings.get("own") and not own_digest:
        raise ValueError(f"the diagnosis in {run} has other experiments of a file; give these, or {remedy}")
    known, names = ({*found.settings.get("experiments", ())} & LISTED), {one.name for one in chosen} & LISTED
    if is_one or names <= known:
        return tuple(one for one in experiments if one.name in known or one.kind == "own")
    if not known <= names:
        dropped = ", ".join(sorted(known - names))
        raise ValueError(f"the diagnosis in {run} would lose {dropped}; allow a higher cost, or {remedy}")
    return chosen


def _list_current(
    folder: RunFolder, known: RunDiagnosis | None, samples: Sequence[Sample], chosen: Sequence[Experiment]
) -> dict[str, str]:
    """Return the videos whose results are those of the chosen experiments, each with the digest of its own ones."""
    if known is None or ({one.name for one in chosen} & LISTED) - {*known.settings.get("experiments", ())}:
        return {}
    found = ((sample, known.find(sample.video_id)) for sample in samples)
    return {
        sample.video_id: video.own
        for sample, video in found
        if video is not None and is_outcome_of(video, sample) and not video.explain_changed(folder)
    }


def _select(folder: RunFolder, split: Split, video_id: str) -> tuple[tuple[Sample, ...], dict[str, str]]:
    """Return the samples to diagnose, and why others have no diagnosis. Raises ``ValueError`` without any."""
    if video_id and all(entry.video_id != video_id for entry in split.entries):
        raise ValueError(f"{video_id} is not a video of {split.path}")
    samples, errors = list[Sample](), dict[str, str]()
    for entry in split.entries:
        if video_id and entry.video_id != video_id:
            continue
        record = folder.record(entry.video_id)
        if reason := explain_unscored(entry, record):
            errors[entry.video_id] = reason
        elif isinstance(entry, Sample) and record is not None:
            if is_outcome_of(record, entry):
                samples.append(entry)
            else:
                errors[entry.video_id] = f"it or its reference has changed in {split.path} since the run; run it again"
    if not samples:
        reasons = next(iter(errors.values()), "the run has no video")
        raise ValueError(f"{folder.path} has no video to diagnose: {reasons}; evidence at a time needs no reference")
    return tuple(samples), errors


def _estimate(
    folder: RunFolder, samples: Sequence[Sample], experiments: Sequence[Experiment], config: StreamConfig
) -> dict[str, float]:
    """Return the estimated cost of each experiment, in runs of the samples."""
    costs, total = dict.fromkeys((experiment.name for experiment in experiments), 0.0), 0
    for sample in samples:
        outputs = folder.outputs(sample)
        situation = Situation(has_cuts=any(output.refreshed for output in outputs))
        variant = Variant(sample=sample, config=replace(config, fps=sample.fps))
        total += len(outputs)
        for experiment in experiments:
            if experiment.vary(variant, situation) is not None:
                costs[experiment.name] += experiment.cost * len(outputs)
    return {name: cost / max(total, 1) for name, cost in costs.items()}


def digest_text(text: str) -> str:
    """Return a digest of a file of experiments, 16 hexadecimal digits; empty without text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""
