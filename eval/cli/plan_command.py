"""``plan``: the predicted cost of a run."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Final

from eval.data.loading import read_split
from eval.data.samples import Split
from eval.matching.turns import DEFAULT_ENCODER
from eval.planning.compare import Difference, compare_run
from eval.planning.constants import Machine, add_machine, find_machine, read_machines
from eval.planning.options import PlanOptions
from eval.planning.predict import Plan, choose_batch, predict
from eval.planning.workload import read_loads
from eval.reports.scoring import ScoreSettings
from eval.runs.folder import RunFolder

_MAX_BATCH = {"cpu": 16}
_MAX_ON_GPU = 32
_NO_FILES: Final = "; no video file can be read: per frame as the measured videos"


def plan(options: PlanOptions) -> int:
    """Print the predicted time, memory and storage of a run over a split."""
    _check(options)
    split = read_split(options.split)
    if not split.samples:
        raise ValueError(f"{options.split} holds no valid videos, so there is nothing to plan")
    machine = _measure(split, options) if options.measure else _find_machine(options)
    predicted = _predict(split, machine, options)
    differences = () if options.run is None else compare_run(predicted, split, RunFolder(options.run))
    if options.json:
        print(json.dumps(_to_json(predicted, machine, options.arch, differences)))
    else:
        _print_plan(predicted, machine, options)
        _print_differences(differences)
    return 0


def _check(options: PlanOptions) -> None:
    for name, value in (("devices", options.devices), ("batch-size", options.batch_size)):
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1; got {value}")
    if options.hours is not None and not 0 < options.hours < math.inf:
        raise ValueError(f"--hours must be positive; got {options.hours:g}")
    if options.against is not None and not options.measure:
        raise ValueError("--against is for --measure; a finished run is compared with --run")
    if options.hours is not None and options.run is not None:
        raise ValueError("--run is a run of the split itself; leave out --hours")


def _find_machine(options: PlanOptions) -> Machine:
    return find_machine(read_machines(options.constants), arch=options.arch, hardware=options.hardware)


def _measure(split: Split, options: PlanOptions) -> Machine:
    """Measure this machine and write its constants; torch is imported here, since a prediction does not need it."""
    if options.constants.exists():
        read_machines(options.constants)  # an invalid file is an error before the measurement, not after it
    machine: Machine = import_module("eval.planning.measure").measure_machine(
        split,
        options.checkpoint,
        arch=options.arch,
        device=options.device,
        heads=options.heads,
        score=ScoreSettings(text_encoder=DEFAULT_ENCODER),
        against=None if options.against is None else read_split(options.against),
    )
    add_machine(options.constants, machine)
    print(f"constants of {options.arch} on {machine.hardware} written to {options.constants}", file=sys.stderr)
    return machine


def _predict(split: Split, machine: Machine, options: PlanOptions) -> Plan:
    samples = list(split.samples)
    if options.hours is not None:
        video_s = sum(sample.num_frames / sample.fps for sample in samples)
        number = max(1, round(len(samples) * options.hours * 3600 / video_s))
        samples = [samples[index % len(samples)] for index in range(number)]
    default = _MAX_BATCH.get(machine.device, _MAX_ON_GPU)
    loads = {sample.video_id: load for sample, load in zip(split.samples, read_loads(split.samples), strict=True)}
    return predict(
        [loads[sample.video_id] for sample in samples],
        machine,
        options.arch,
        fps=[sample.fps for sample in samples],
        num_devices=options.devices,
        batch_size=choose_batch(len(samples), options.devices, options.batch_size, default=default),
        keeps_features=options.features,
    )


def _to_json(plan: Plan, machine: Machine, arch: str, differences: Sequence[Difference]) -> dict[str, object]:
    model = machine.models[arch]
    measured = {
        "hardware": machine.hardware,
        "torch": machine.torch,
        "held_out": model.held_out,
        "held_out_videos": model.held_out_videos,
    }
    compared = [{**asdict(one), "error": one.error} for one in differences]
    return {**asdict(plan), "arch": arch, **measured, **({"run": compared} if compared else {})}


def _print_plan(plan: Plan, machine: Machine, options: PlanOptions) -> None:
    model = machine.models[options.arch]
    print(
        f"{plan.num_videos:,} videos, {plan.num_frames:,} frames, {_duration(plan.video_s)} of video, "
        f"{plan.num_turns:,} messages and updates in the reference\n"
        f"{options.arch}, {plan.num_devices:,} x {machine.device}, {plan.batch_size} videos per pass; "
        f"constants of {machine.hardware}\n"
    )
    encode = "not measured" if plan.encode_s is None else _duration(plan.encode_s)
    core = "of one core" if machine.device == "cpu" else "of one device"
    rows = [
        ("start", _duration(plan.start_s), "imports and loading, once per run"),
        ("decode", _duration(plan.decode_s), "of one core" + _explain_decoding(plan, machine)),
        ("encode", encode, core),
        ("stream", _duration(plan.stream_s), f"{core}; {plan.passes:,.0f} passes, {plan.tokens:,.0f} tokens"),
        ("scores", _duration(plan.score_s), "of one core, beside the run"),
        ("wall clock", _duration(plan.wall_s), f"{plan.video_s / plan.wall_s:,.1f} times faster than the videos play"),
        ("memory", _size(plan.worker_mb * 2**20), "each worker, at most"),
        ("storage", _size(plan.run_bytes + plan.feature_bytes), _name_storage(plan)),
    ]
    for name, value, remark in rows:
        print(f"{name:<12}{value:>12}  {remark}")
    print(f"\nmeasured on {model.measured}")
    if plan.encode_s is None:
        print("the vision tower of this shape was not measured: the times are those of a run with kept features")
    if model.held_out:
        errors = ", ".join(f"{name} {error:+.1%}" for name, error in model.held_out.items())
        print(f"error on {model.held_out_videos}, which were not measured: {errors}")


def _print_differences(differences: Sequence[Difference]) -> None:
    if differences:
        print(f"\n{'against the run':<16}{'predicted':>12}{'measured':>12}{'error':>9}")
    for one in differences:
        print(f"{one.quantity:<16}{one.predicted:>12,.1f}{one.measured:>12,.1f}{one.error:>+9.1%}")


def _name_storage(plan: Plan) -> str:
    if not plan.feature_bytes:
        return "run folder"
    return f"run folder {_size(plan.run_bytes)}, kept features {_size(plan.feature_bytes)}"


def _explain_decoding(plan: Plan, machine: Machine) -> str:
    """Return what makes the time of decoding uncertain."""
    if not plan.has_files:
        return _NO_FILES
    if not plan.other_codecs:
        return ""
    return f"; measured with {', '.join(machine.decode_codecs)}: uncertain for {', '.join(plan.other_codecs)}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.3g} TB"
