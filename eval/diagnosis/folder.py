"""The diagnosis of a run folder: ``diagnosis.json``, which is complete after each video, and ``diagnosis.csv``.

A killed diagnosis is continued by the same command: finished videos with the same model, settings, experiments, samples
and outputs are kept, so the files are those of an undisturbed one. A run of another model is stale and refused; a video
that has changed since the run is left out. ``eval.runs.roots`` reads the files without the model.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from stepscope.engine.io.files import atomic_write, replace_nan, to_json, write_csv
from stepscope.engine.io.json_records import read_record
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.eval.data.samples import Sample
from stepscope.eval.diagnosis.classes import Diagnosis, classify
from stepscope.eval.diagnosis.plan import LISTED, Plan
from stepscope.eval.diagnosis.recordings import diagnose_sample
from stepscope.eval.diagnosis.videos import VideoDiagnosis, count_differing
from stepscope.eval.matching.turns import import_encoder
from stepscope.eval.reports.scoring import update_roots
from stepscope.eval.runs.batch import open_backend, parse_devices
from stepscope.eval.runs.folder import RunFolder, is_outcome_of
from stepscope.eval.runs.output_folder import describe_changes, lock_folder
from stepscope.eval.runs.pools.ray_pool import is_cluster
from stepscope.eval.runs.pools.scheduler import run_scheduler
from stepscope.eval.runs.pools.worker import load_checkpoint
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, digest_outputs
from stepscope.eval.runs.worker_messages import VideoResult

_COLUMNS: Final = (
    *("video_id", "time_s", "kind", "root_time_s", "is_consequence", "class", "root_class", "fixed_by"),
    "num_consequences",
)


class _DiagnosisFile(BaseModel):
    """Schema of ``diagnosis.json``; the fields on roots and experiments follow from the videos."""

    model_config = ConfigDict(extra="allow")

    settings: dict[str, Any] = {}
    videos: list[VideoDiagnosis] = []


def find_stale(run: Path, plan: Plan) -> str:
    """Return why the diagnosis in a run folder is not of this plan; an empty text if it is, or if there is none."""
    found = _read(run)
    if found is None:
        return ""
    plain = json.loads(json.dumps(dict(plan.settings)))
    changed = [name for name in plain if found.settings.get(name) != plain[name]]
    if set(changed) <= {"experiments", "own"}:  # the user's own are added to the results that are there
        lacking = {*plain["experiments"]} & LISTED - {*found.settings.get("experiments", ())}
        return "fewer experiments" if lacking else ""
    return describe_changes(changed, found.settings, plain)


def diagnose_run(
    run: Path, plan: Plan, *, devices: str = "auto", checkpoint: Checkpoint | None = None
) -> Generator[str | VideoDiagnosis]:
    """Diagnose the videos of a plan, and write ``diagnosis.json`` after each; ``devices`` are those of ``run_batch``.

    A ``checkpoint`` that is loaded diagnoses them in this process, in place of devices.

    Yields what is done next, and each video that has ended; those that are kept come first.

    Raises as ``run_batch``, and ``FolderRefusedError`` for a folder that is being written.
    """
    folder, samples = RunFolder(run), {sample.video_id: sample for sample in plan.samples}
    with lock_folder(run):
        earlier = None if find_stale(run, plan) else _read(run)
        videos = [] if earlier is None else earlier.videos
        kept = {video.video_id: _drop_own(video, plan) for video in videos if _is_current(video, folder, plan)}
        pending = [sample for sample in plan.samples if sample in plan.pending or sample.video_id not in kept]
        for video_id in samples.keys() - {sample.video_id for sample in pending}:
            yield kept[video_id]
        with closing(_diagnose(plan, pending, devices, checkpoint)) as events:
            for event in events:
                if isinstance(event, VideoResult):
                    sample = samples[event.record.video_id]
                    video = _finish(event, folder, sample, plan, kept.get(sample.video_id))
                    if not video.error or sample.video_id not in kept:
                        kept[video.video_id] = video
                    _write(run, plan, list(kept.values()))
                    yield video
                else:
                    yield event
        found = _write(run, plan, list(kept.values()))
        write_csv(run / "diagnosis.csv", found.rows(), columns=_COLUMNS)
        update_roots(run, {video.video_id: len(video.roots) for video in found.videos})


def _diagnose(
    plan: Plan, samples: Sequence[Sample], devices: str, checkpoint: Checkpoint | None
) -> Generator[str | VideoResult]:
    """Diagnose videos in this process on one device, on several or on a cluster by workers; yield what is done."""
    if not samples:
        return
    specs = [] if is_cluster(devices) else parse_devices(devices)
    if checkpoint is not None or len(specs) == 1:
        checkpoint = checkpoint or load_checkpoint(plan.work, specs[0])
        encode = import_encoder(plan.work.scoring.text_encoder).encode
        for sample in samples:
            yield from diagnose_sample(checkpoint, plan.work, sample, encode)
        return
    with open_backend(devices, plan.work) as backend, closing(run_scheduler(samples, backend)) as events:
        yield from (event for event in events if isinstance(event, VideoResult))


def _drop_own(video: VideoDiagnosis, plan: Plan) -> VideoDiagnosis:
    """Return a video without the results of own experiments that are not those of a plan."""
    if video.own == plan.settings["own"]:
        return video
    results = {name: result for name, result in video.results.items() if name in LISTED}
    problems = {name: text for name, text in video.problems.items() if name in LISTED}
    return replace(video, own="", results=results, problems=problems)


def _finish(
    result: VideoResult, folder: RunFolder, sample: Sample, plan: Plan, earlier: VideoDiagnosis | None
) -> VideoDiagnosis:
    """Return the diagnosis of a video, with its earlier results and compared with the outputs in the run folder."""
    found = result.diagnosis
    if not isinstance(found, VideoDiagnosis):
        return VideoDiagnosis(video_id=sample.video_id, source=result.record.source, error=result.record.error)
    return replace(
        found,
        own=plan.settings["own"],
        results={**(earlier.results if earlier else {}), **found.results},
        problems={**(earlier.problems if earlier else {}), **found.problems},
        outputs_digest=digest_outputs(folder, sample.video_id),
        num_differing=count_differing(folder.outputs(sample), result.outputs),
    )


def _is_current(video: VideoDiagnosis, folder: RunFolder, plan: Plan) -> bool:
    """Return whether a video that was diagnosed earlier has neither failed nor changed since."""
    sample = next((sample for sample in plan.samples if sample.video_id == video.video_id), None)
    is_same = sample is None or is_outcome_of(video, sample)
    has_failed = bool(video.error) or video.video_id in plan.errors
    return is_same and not has_failed and not video.explain_changed(folder)


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
        "videos": [_drop_empty(asdict(video)) for video in found.videos],
    }
    with atomic_write(run / DIAGNOSIS_FILE) as file:
        lines = (f"{to_json(name)}: {_format(part)}" for name, part in content.items())
        file.write("{" + ",\n".join(lines) + "}\n")
    return found


def _drop_empty(value: Any) -> Any:
    """Leave out the empty fields of a video and of its results, which are their defaults."""
    if not isinstance(value, dict):
        return value
    return {name: _drop_empty(part) for name, part in value.items() if part not in ("", (), {})}


def _format(part: Any) -> str:
    """Return a part of the file as JSON, a list with a line for each item."""
    plain = replace_nan(part)
    return "[\n" + ",\n".join(map(to_json, plain)) + "]" if isinstance(plain, list) else to_json(plain)
