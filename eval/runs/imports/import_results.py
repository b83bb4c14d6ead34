"""Import of result files of other systems into run folders, so that they are inspected and scored like own runs.

An invalid value is an error that names the field. Values that a form does not hold are unknown, never invented: scores
of them are nan, and the state of the steps stays as it was at the start. Missing frames before the last one are silent.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from stepscope.engine.dialogue import initial_state
from stepscope.engine.io.hub_cache import name_file
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.json_fields import MAX_DURATION_S, MAX_SAMPLE_FRAMES, Fields
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, Split, describe_early_end, make_own_sample
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import OWN_SPLIT, RunFolder, VideoRecord, describe_rules, digest_sample
from stepscope.eval.runs.imports.recognition import read_values, recognize
from stepscope.eval.runs.imports.recorded_sound import copy_sounds
from stepscope.eval.runs.imports.system_output import (
    OtherVideoError,
    Result,
    ResultForm,
    SignalRule,
    SystemOutput,
    describe_signals,
    file_name,
)

DEFAULT_FPS: Final = 2.0
"""Frames per second of files without a split that name no rate."""
NO_RESULT_FILE: Final = "no result file was given for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResults:
    """The results of files that belong to videos of a split."""

    by_video: Mapping[str, tuple[Result, ResultForm]]
    """Per video, its record and the form of the file; never empty."""
    problems: Mapping[str, str]
    """An error per file or line that matches no sample, or the sample of an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedVideo:
    """The results of a system in one video."""

    outputs: tuple[FrameOutput, ...]
    settings: Mapping[str, Any]
    """``missing`` and ``signals``, as ``run.json`` has them."""
    problems: tuple[str, ...] = ()
    """Damaged lines of the file, which are of no use."""
    warning: str = ""
    """That of ``SystemOutput``."""


class _Read(NamedTuple):
    """The results in one video, before they are written."""

    system_output: SystemOutput
    form: ResultForm
    outputs: tuple[FrameOutput, ...]
    source: Path
    """The folder of the file."""


def find_results(files: Sequence[Path], split: Split) -> FoundResults:
    """Return the records of result files by the video of a split. Raises ``ValueError`` if none matches."""
    return _find_results(files, lambda result, form: form.find_sample(result, split).video_id)


def _find_results(files: Sequence[Path], name_video: Callable[[Result, ResultForm], str]) -> FoundResults:
    problems: dict[str, str] = {}
    found: dict[str, tuple[Result, ResultForm]] = {}
    for path in files:
        for place, value in read_values(path, problems):
            try:
                result, form = recognize(path, value)
                video_id = name_video(result, form)
                if video_id in found:
                    raise ValueError(f"is a second result for {video_id}; give one")
                found[video_id] = (result, form)
            except ValueError as error:
                problems[place] = f"{place} {error}"
    if not found:
        raise ValueError(next(iter(problems.values()), "no result files were given"))
    return FoundResults(by_video=found, problems=problems)


def import_into(
    out: Path, files: Sequence[Path], split: Split, settings: Mapping[str, Any], *, rule: SignalRule | None = None
) -> Mapping[str, str]:
    """Write the results of files into a new run folder, with further settings, and describe their signals in these.

    Each sample gets a record: with its outputs, or with the error of its file, or with ``NO_RESULT_FILE``. Returns
    ``FoundResults.problems``. The folder of an import of the same files that was killed, and so has no scores yet, is
    written again.

    Raises ``ValueError`` before anything is written if no file matches, or if no file holds the signal of the rule, and
    ``FolderRefusedError`` for a folder in use.
    """
    found = find_results(files, split)
    _write_run(out, files, found, split, settings, rule)
    return found.problems


def _is_unfinished(out: Path, settings: Mapping[str, Any]) -> bool:
    """Return whether a folder holds an import of the same files without scores."""
    if not out.is_dir() or (out / "metrics.json").exists():
        return False
    return bool((RunFolder(out).settings() or {}).get("imported") == settings["imported"])


def import_without_split(
    out: Path,
    files: Sequence[Path],
    settings: Mapping[str, Any],
    *,
    fps: float | None = None,
    rule: SignalRule | None = None,
) -> Mapping[str, str]:
    """Write the results of files into a new run folder that has a split of its own, without references.

    A video has the name that its record has, and the frames of its results. ``fps`` is the rate of the files; by
    default the one that they name, else ``DEFAULT_FPS``. Returns and raises as ``import_into``.
    """
    found = _find_results(files, _name_video)
    samples: list[Sample] = []
    errors: dict[str, str] = {}
    for video_id, (result, form) in found.by_video.items():
        try:
            samples.append(_measure_sample(video_id, result, form, fps))
        except ValueError as error:
            errors[f"{result.path}, {video_id}"] = f"{result.path}: {error}"
    if not samples:
        raise ValueError(next(iter(errors.values())))
    split = Split(path=out.resolve() / OWN_SPLIT, entries=tuple(samples))
    _write_run(out, files, found, split, settings, rule, is_own=True)
    return {**found.problems, **errors}


def _name_video(result: Result, form: ResultForm) -> str:
    """Return the name of a record's video, without the ending of a file."""
    try:
        return form.find_sample(result, Split(path=result.path, entries=())).video_id
    except OtherVideoError as error:
        return PurePosixPath(file_name(error.names[0])).stem or error.names[0]


def _measure_sample(video_id: str, result: Result, form: ResultForm, fps: float | None) -> Sample:
    """Return the sample of results without references, as long as they are."""
    rate = fps or _find_rate(result.fields) or DEFAULT_FPS
    longest = int(min(MAX_DURATION_S * rate, MAX_SAMPLE_FRAMES))
    sample = replace(make_own_sample(video_id, rate, _find_file(result), "", (), None), num_frames=longest)
    output = form.read(result.fields, sample).end_with(sample)
    # A form that does not name its last frame fills the sample; then its last entry is the end.
    num_frames = output.num_named if output.num_frames >= longest else output.num_frames
    if not num_frames:
        raise ValueError(f"has no entry of {video_id}, so that its length is not known; give a split")
    return replace(sample, num_frames=num_frames)


def _find_rate(fields: Fields) -> float | None:
    metadata = fields.read_object("metadata", may_be_missing=True) if fields.has("metadata") else fields
    for one, name in ((fields, "frame_fps"), (metadata, "fps")):
        if one.has(name):
            return one.read_number(name, minimum=0.001, maximum=1000)
    return None


def _find_file(result: Result) -> Path | None:
    """Return the video file that a record names, if it exists beside the file of the results."""
    for name in ("video_path", "video"):
        value = result.fields.record.get(name)
        if isinstance(value, str) and value.strip():
            path = result.path.parent / value
            return path if os.path.isfile(path) else None
    return None


def _read_all(found: FoundResults, split: Split) -> dict[str, _Read | str]:
    """Return the results of each sample that has a file, or the error of the file."""
    results: dict[str, _Read | str] = {}
    num_without_entry = 0
    for sample in split.samples:
        if sample.video_id not in found.by_video:
            continue
        result, form = found.by_video[sample.video_id]
        try:
            system_output = form.read(result.fields, sample).end_with(sample)
            num_without_entry += system_output.num_without_entry
            if num_without_entry > MAX_SAMPLE_FRAMES:  # a split of some kB can state many days
                raise ValueError(
                    f"leaves {system_output.num_without_entry} frames of {sample.video_id} without an entry; all files "
                    f"together may leave at most {MAX_SAMPLE_FRAMES}; check num_frames and fps of the split"
                )
            results[sample.video_id] = _Read(system_output, form, _outputs(system_output, sample), result.path.parent)
        except ValueError as error:
            results[sample.video_id] = f"{result.path}: {error}"
    return results


def _write_run(
    out: Path,
    files: Sequence[Path],
    found: FoundResults,
    split: Split,
    settings: Mapping[str, Any],
    rule: SignalRule | None,
    *,
    is_own: bool = False,
) -> None:
    """Write a run folder; ``is_own`` says that it holds its split, which is written too."""
    results = _read_all(found, split)
    described = _describe(results.values(), rule)
    imported = [str(path.resolve()) for path in files]
    of_run = {"split": name_file(split.path), "imported": imported, **settings, **described}
    with RunFolder.open(out, of_run, resume=_is_unfinished(out, of_run)) as folder:
        if is_own:
            write_samples(split.path, split.samples, file_format="manifest")
            split = read_split(split.path)
        for sample in split.samples:
            result = results.get(sample.video_id, NO_RESULT_FILE)
            if isinstance(result, str):
                folder.save_video(_record(sample, None, error=result), ())
            else:
                folder.save_video(_record(sample, result.system_output), result.outputs)
        audio = {
            video_id: copy_sounds(one.system_output.audio, one.source, folder.path, video_id)
            for video_id, one in results.items()
            if not isinstance(one, str) and one.system_output.audio
        }
        if audio:
            folder.write_settings({**(folder.settings() or {}), "audio": audio})


def read_result(path: Path, sample: Sample, *, rule: SignalRule | None = None) -> ImportedVideo:
    """Return the results in one video: of the record with its id or file name, or of the only one if it names none.

    Damaged lines do no harm if the record is found by its name. Raises ``ValueError`` with file, field and cure.
    """
    problems: dict[str, str] = {}
    records = list[tuple[Result, ResultForm]]()
    for place, value in read_values(path, problems):
        try:
            records.append(recognize(path, value))
        except ValueError as error:
            raise ValueError(f"{place} {error}") from error
    only = Split(path=Path(sample.video_id), entries=(sample,))
    is_alone = len(records) == 1 and not problems
    name = sample.video_path.name if sample.video_path else sample.video_id
    fits = list[tuple[Result, ResultForm]]()
    for result, form in records:
        try:
            form.find_sample(result, only)
        except OtherVideoError as error:
            if is_alone:
                raise ValueError(
                    f"{path}: is of the video {error.name}, not of {name}; give the results of this video, or name "
                    "the video's file as they do"
                ) from error
            continue
        except ValueError:  # it names no video
            if not is_alone:
                continue
        fits.append((result, form))
    if problems and not fits:
        raise ValueError(next(iter(problems.values())))
    if len(fits) != 1:
        raise ValueError(
            f"{path}: has {len(records)} results, and {len(fits) or 'none'} of them for {name}; "
            "give a file with the result of this video alone"
        )
    ((result, form),) = fits
    try:
        system_output = form.read(result.fields, sample).end_with(sample)
        read = _Read(system_output, form, _outputs(system_output, sample), result.path.parent)
        return ImportedVideo(
            outputs=read.outputs,
            settings=_describe([read], rule),
            problems=tuple(problems.values()),
            warning=system_output.warning,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _describe(results: Iterable[_Read | str], rule: SignalRule | None) -> dict[str, Any]:
    """Return the settings of a run on its files: their forms with the missing values, and the signals."""
    systems = [(one.system_output, one.form) for one in results if not isinstance(one, str)]
    specs = describe_signals(systems, rule)
    missing = {form.name: form.missing for _, form in systems}
    return {"missing": missing, **({"signals": [asdict(spec) for spec in specs]} if specs else {})}


def list_missing(settings: Mapping[str, object]) -> list[str]:
    """Return a line per form of an imported run that names the values that its files do not hold, and its rule."""
    missing, rules = settings.get("missing"), describe_rules(settings)
    if not isinstance(missing, dict):
        return []
    known = "thresholds, " if rules else ""
    lines = [f"{name} files hold no {values.removeprefix(known)}" for name, values in missing.items()]
    return [*lines, f"The rule: {rules}"] if rules else lines


def _record(sample: Sample, system_output: SystemOutput | None, *, error: str = "") -> VideoRecord:
    num_frames = 0 if system_output is None else system_output.num_frames
    if system_output is not None and sample.num_frames - num_frames >= sample.fps:  # an entry may last 1 s
        system_output.warn(describe_early_end(sample, num_frames))
    return VideoRecord(
        video_id=sample.video_id,
        source=digest_sample(sample),
        fps=sample.fps,
        num_frames=num_frames,
        wall_s=sum(system_output.costs_s.values()) if system_output is not None and system_output.costs_s else None,
        warning="" if system_output is None else system_output.warning,
        error=error,
    )


def _outputs(system_output: SystemOutput, sample: Sample) -> tuple[FrameOutput, ...]:
    if not system_output.num_frames:
        raise ValueError("holds no frames; there is nothing to score")
    state = initial_state(sample.steps, sample.initial_state)
    silent: Mapping[str, float] = {}
    return tuple(
        FrameOutput(
            frame_index=index,
            time_s=index / sample.fps,
            speak_prob=math.nan,
            update_prob=math.nan,
            response=system_output.texts.get(index),
            updates=(),
            dst_state=state,  # shared, as is `silent`: a form without an end has a record for each frame of the split
            cache_tokens=system_output.cache_tokens.get(index, 0),
            refreshed=False,
            latency_ms=1000 * system_output.costs_s.get(index, math.nan),
            signals=system_output.signals.get(index, silent),
            state=system_output.states.get(index),
        )
        for index in range(system_output.num_frames)
    )
