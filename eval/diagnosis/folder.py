"""The diagnosis of a run folder: ``diagnosis.json``, which is complete after each video, and ``diagnosis.csv``.

A killed diagnosis is continued by the same command: finished videos with the same model, settings, experiments, samples
and outputs are kept, so the files are those of an undisturbed one. A run of another model is stale and refused; a video
that has changed since the run is left out. ``eval.runs.roots`` reads the files without the model.
"""

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import atomic_write, replace_nan, to_json, write_csv
from stepscope.engine.io.json_records import read_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.replay import Recording
from stepscope.eval.data.samples import Sample, Split, build_task
from stepscope.eval.diagnosis.classes import Diagnosis, classify
from stepscope.eval.diagnosis.experiments import (
    Experiment,
    Situation,
    Variant,
    choose_affordable,
    list_experiments,
)
from stepscope.eval.diagnosis.videos import Embed, VideoDiagnosis, count_differing, diagnose_video
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings, read_run_scoring, update_roots
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import RunFolder, digest_sample, explain_unscored, is_outcome_of, read_stream_config
from stepscope.eval.runs.output_folder import describe_changes, find_changed_settings, lock_folder, with_defaults
from stepscope.eval.runs.pools.worker import load_checkpoint
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, digest_outputs
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.worker_messages import WorkerConfig

CHAIN_COST: Final = {"answer": 4.5}
"""Estimated cost of the chain in runs by the source of the decisions; 0.6 for others."""
GOLD_COST: Final = 0.8
_MODEL: Final = ("model_digest", "heads_digest")
_COLUMNS: Final = (
    *("video_id", "time_s", "kind", "root_time_s", "is_consequence", "class", "root_class", "fixed_by"),
    "num_consequences",
)


class _DiagnosisFile(BaseModel):
    """Schema of ``diagnosis.json``; the fields on roots and experiments follow from the videos."""

    model_config = ConfigDict(extra="allow")

    settings: dict[str, Any] = {}
    videos: list[VideoDiagnosis] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a diagnosis will do, and its estimated costs in runs of the videos."""

    worker_config: WorkerConfig
    settings: Mapping[str, Any]
    """What the diagnosis depends on, apart from the samples."""
    scoring: ScoreSettings
    samples: tuple[Sample, ...]
    experiments: tuple[Experiment, ...]
    left_out: Mapping[str, float]
    """Experiments over the budget, with their costs."""
    base_cost: float
    """Of the run again, the chain and the gold pass."""
    experiment_cost: float
    errors: Mapping[str, str]
    """Videos that have no diagnosis, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisStep:
    """What is done next in a video, or a video that has ended."""

    video_id: str
    activity: str = ""
    video: VideoDiagnosis | None = None
    is_kept: bool = False


def explain(
    recording: Recording,
    sample: Sample,
    *,
    experiments: Sequence[Experiment] | None = None,
    encode: Encode | None = None,
    dataset: str = "",
) -> Diagnosis:
    """Return why a finished run of a video failed: its roots, what follows from each, and what prevents them.

    The recording is streamed again many times, by default about 34 times its own cost. Its KV cache is consumed.
    With one video, the controls of each experiment are the right turns of this video alone; ``stepscope explain`` has
    those of a split. Example::

        recording = Recording(checkpoint, encode(checkpoint, read_frames(sample.video_path, fps=sample.fps)),
                              task=Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns))
        list(recording.run())
        for found in explain(recording, sample).roots:
            print(found.root.time_s, found.cause, found.root.num_consequences)

    Args:
        recording: A finished run of the sample's video.
        sample: The video with its reference.
        experiments: Changes to try, by default all; () for the roots alone.
        encode: Function from ``N`` texts to embeddings ``[N, D]``, by default the sentence encoder of the scores.
        dataset: Name that chooses the match window.

    Raises:
        ValueError: The run samples its texts, the sample has no reference, or one that fails by its own scores.
    """
    tried = list_experiments() if experiments is None else tuple(experiments)
    scoring = ScoreSettings(text_encoder=DEFAULT_ENCODER, dataset=dataset)
    steps = diagnose_video(
        recording,
        sample,
        tried,
        encode=encode or import_encoder(DEFAULT_ENCODER).encode,
        scoring=scoring,
        embed=_make_embed(SampleFeatures(checkpoint=recording.checkpoint)),
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return classify([end.value], tried)


def make_plan(
    run: Path,
    split: Split,
    worker_config: WorkerConfig | None = None,
    *,
    video_id: str = "",
    own: Sequence[Experiment] = (),
    own_digest: str = "",
    device: str = "auto",
    budget: float,
) -> Plan:
    """Return what a diagnosis of a run folder will do, with at most a ``budget`` in runs.

    ``worker_config`` names the model, by default that of the run; its settings are those of the run.

    Raises:
        ValueError: Nothing can be run again, the run is stale, it samples its texts, or the budget is too small.
        EngineError: The checkpoint cannot be identified.
    """
    folder = RunFolder(run)
    settings = folder.settings()
    if settings is None:
        raise ValueError(f"{run} is not a run folder; give a folder of `stepscope eval`")
    if settings.get("recorded") is not None or "imported" in settings or not settings.get("model_digest"):
        raise ValueError(
            f"{run} was recorded or imported, without a model that StepScope has: nothing can be run again"
        )
    config = read_stream_config(settings, fps=StreamConfig().fps)
    if config.do_sample:
        raise ValueError(f"{run} samples its texts (do_sample), so that a failure may be chance; run it without")
    given = worker_config or WorkerConfig(checkpoint=str(settings["checkpoint"]))
    worker_config = replace(
        given,
        config=config,
        quantize=settings.get("quantize", "none"),
        frame_pixels=settings.get("frame_pixels"),
        hardware_decoding=settings.get("hardware_decoding", "off"),
    )
    _check_model(run, split, worker_config, settings, device)
    samples, errors = _select(folder, split, video_id)
    experiments = list_experiments(own)
    costs = _estimate(folder, samples, experiments, config)
    base_cost = round(1 + CHAIN_COST.get(config.policy.source, 0.6) + GOLD_COST, 3)
    if base_cost > budget:
        raise ValueError(f"the chain and the gold pass alone cost about {base_cost:.1f} runs; raise --max-cost")
    chosen = choose_affordable(experiments, costs, budget=budget - base_cost)
    scoring = read_run_scoring(folder)
    return Plan(
        worker_config=worker_config,
        settings={
            **{name: settings.get(name) for name in _MODEL},
            "config": with_defaults(settings)["config"],
            **asdict(scoring),
            "experiments": [experiment.name for experiment in chosen],
            "own": own_digest,
        },
        scoring=scoring,
        samples=samples,
        experiments=chosen,
        left_out={experiment.name: costs[experiment.name] for experiment in experiments if experiment not in chosen},
        base_cost=base_cost,
        experiment_cost=sum(costs[experiment.name] for experiment in chosen),
        errors=errors,
    )


def find_stale(run: Path, plan: Plan) -> str:
    """Return why the diagnosis in a run folder is not of this plan; an empty text if it is, or if there is none."""
    found = _read(run)
    if found is None:
        return ""
    plain = json.loads(json.dumps(dict(plan.settings)))
    changed = [name for name in plain if found.settings.get(name) != plain[name]]
    return describe_changes(changed, found.settings, plain) if changed else ""


def diagnose_run(run: Path, plan: Plan, *, encode: Encode, device: str = "auto") -> Generator[DiagnosisStep]:
    """Diagnose the videos of a plan one after another, and write ``diagnosis.json`` after each.

    Raises as ``load_model``, ``FolderRefusedError`` for a folder that is being written, and ``OSError``.
    """
    folder = RunFolder(run)
    with lock_folder(run):
        earlier = None if find_stale(run, plan) else _read(run)
        videos = [] if earlier is None else earlier.videos
        kept = {video.video_id: video for video in videos if _is_current(video, folder, plan)}
        sources = {sample.video_id for sample in plan.samples}
        for video_id in kept:
            if video_id in sources:
                yield DiagnosisStep(video_id=video_id, video=kept[video_id], is_kept=True)
        pending = [sample for sample in plan.samples if sample.video_id not in kept]
        if pending:
            checkpoint = load_checkpoint(plan.worker_config, _one_device(device))
            for sample in pending:
                video = yield from _diagnose(checkpoint, folder, plan, sample, encode)
                kept[sample.video_id] = video
                _write(run, plan, list(kept.values()))
                yield DiagnosisStep(video_id=sample.video_id, video=video)
        found = _write(run, plan, list(kept.values()))
        write_csv(run / "diagnosis.csv", found.rows(), columns=_COLUMNS)
        update_roots(run, {video.video_id: len(video.roots) for video in found.videos})


def _is_current(video: VideoDiagnosis, folder: RunFolder, plan: Plan) -> bool:
    """Return whether a video that was diagnosed earlier has neither failed nor changed since."""
    sample = next((sample for sample in plan.samples if sample.video_id == video.video_id), None)
    is_same = sample is None or is_outcome_of(video, sample)
    return not video.error and is_same and not video.explain_changed(folder)


def read_diagnosis(run: Path, plan: Plan) -> Diagnosis:
    """Return the diagnosis in a run folder, with the experiments of a plan. Raises ``ValueError`` if it is invalid."""
    found = _read(run)
    return classify([] if found is None else found.videos, plan.experiments)


def _read(run: Path) -> _DiagnosisFile | None:
    try:
        return read_record(_DiagnosisFile, run / DIAGNOSIS_FILE)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{error}; delete it, and explain the run again") from error


def _write(run: Path, plan: Plan, videos: Sequence[VideoDiagnosis]) -> Diagnosis:
    """Write ``diagnosis.json``: the videos in the order of their ids, and what follows from them."""
    found = classify(sorted(videos, key=lambda video: video.video_id), plan.experiments)
    content = {
        "settings": plan.settings,
        "num_failures": found.num_failures,
        "num_roots": len(found.roots),
        "consequences": asdict(found.consequences),
        "classes": {name: asdict(share) for name, share in found.shares.items()},
        "experiments": [asdict(effect) for effect in found.effects],
        "roots": [
            {"video_id": one.video_id, "frame": one.root.frame, "class": one.cause, "fixed_by": one.fixed_by}
            for one in found.roots
        ],
        "videos": [asdict(video) for video in sorted(videos, key=lambda video: video.video_id)],
    }
    with atomic_write(run / DIAGNOSIS_FILE) as file:
        lines = (f"{to_json(name)}: {_format(part)}" for name, part in content.items())
        file.write("{" + ",\n".join(lines) + "}\n")
    return found


def _format(part: Any) -> str:
    """Return a part of the file as JSON, a list with a line for each item."""
    plain = replace_nan(part)
    return "[\n" + ",\n".join(map(to_json, plain)) + "]" if isinstance(plain, list) else to_json(plain)


def _diagnose(
    checkpoint: Checkpoint, folder: RunFolder, plan: Plan, sample: Sample, encode: Encode
) -> Generator[DiagnosisStep, None, VideoDiagnosis]:
    """Stream a video again and diagnose it; an invalid video becomes a diagnosis with an error."""
    work, warnings = plan.worker_config, list[str]()
    features = SampleFeatures(checkpoint=checkpoint, folder=work.features, hardware=work.hardware_decoding)
    config = replace(work.config, fps=sample.fps)
    yield DiagnosisStep(video_id=sample.video_id, activity="run")
    try:
        recording = Recording(checkpoint, features.embed(sample, warnings), task=build_task(sample), config=config)
        outputs = list(recording.run())
        steps = diagnose_video(
            recording,
            sample,
            plan.experiments,
            encode=encode,
            scoring=plan.scoring,
            embed=_make_embed(features),
        )
        while True:
            try:
                activity = next(steps)
            except StopIteration as end:
                found: VideoDiagnosis = end.value
                break
            yield DiagnosisStep(video_id=sample.video_id, activity=activity)
        return replace(
            found,
            outputs_digest=digest_outputs(folder, sample.video_id),
            num_differing=count_differing(folder.outputs(sample), outputs),
            warning="; ".join(warnings),
        )
    except (EngineError, ValueError) as error:
        return VideoDiagnosis(video_id=sample.video_id, source=digest_sample(sample), error=str(error))


def _make_embed(features: SampleFeatures) -> Embed:
    def embed(sample: Sample, shift_s: float) -> "Sequence[FrameFeatures]":
        if not shift_s:
            return list(features.embed(sample))
        return list(features.embed(replace(sample, start_s=(sample.start_s or 0.0) + shift_s)))

    return embed


def _check_model(
    run: Path, split: Split, worker_config: WorkerConfig, settings: Mapping[str, Any], device: str
) -> None:
    """Raise ``ValueError`` if the model is not that of the run."""
    now = build_run_settings(split, worker_config, [_one_device(device)])
    if changed := find_changed_settings(settings, now, _MODEL):
        changes = describe_changes(changed, settings, now)
        raise ValueError(f"{run} is stale, since it has {changes}; run it again, or name its model with --checkpoint")


def _one_device(device: str) -> Any:
    specs = parse_devices(device)
    if len(specs) != 1:
        names = ", ".join(spec.device for spec in specs)
        raise ValueError(f"a diagnosis runs on one device; choose one of {names}")
    return specs[0]


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
        raise ValueError(f"{folder.path} has no video to explain: {reasons}")
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
