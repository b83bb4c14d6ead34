"""What happens on a click in the batch tab: free functions from what is on the page to what shall be on it.

Jobs belong to the server (``app.batch.jobs``), run folders to the disk: a window shows one of them, by its name.
"""

import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gradio as gr

from app.batch import charts
from app.batch.comparing import compared_turns, compared_videos, draw_differences
from app.batch.jobs import Job, Jobs
from app.batch.results import TABLES, Results, draw_corpus, read_results, video_table
from app.batch.sweeping import curves, draw_heat_map, make_grid
from app.batch.sweeping import describe as describe_sweep
from app.clips import clip_of
from app.handlers import Bench, read_threshold
from app.runs import Run
from app.views import Buttons, ClipView, LiveRun, Page, Thresholds, say, show_run
from app.words import clock, sentence
from engine.config import StreamConfig
from engine.control import Task
from engine.errors import EngineError
from eval.batch import describe, find_places
from eval.comparison import Comparison, compare_runs
from eval.grid import BestPoint, GridScores, find_best
from eval.matching import Encode
from eval.preview import preview, read_traces
from eval.progress import Progress
from eval.runs import RunFolder, other_settings
from eval.samples import Sample, Split
from eval.sweep import SweepProgress, run_sweep
from eval.sweep_files import read_sweep
from eval.worker import Work

NAME_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
LONGEST_NAME = 80
FEATURES = ".features"
SWEEPS = ".sweeps"


@dataclass(frozen=True, kw_only=True)
class Batches:
    """What all windows share of the batch tab; only the jobs change."""

    jobs: Jobs
    """The line of runs."""
    splits: Mapping[str, Split]
    """What can be run, by name."""
    runs: Path
    """Folder of the run folders; it is made when the first run begins."""
    work: Work
    """The page's checkpoint and settings."""
    takes_paths: bool
    """Whether other checkpoints may be named: on a page that only this machine sees."""

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first; this server's own, which may have no folder, at the top."""
        folders = [path for path in self.runs.glob("*") if (path / "run.json").is_file()] if self.runs.is_dir() else []
        kept = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
        own = [job.name for job in reversed(self.jobs.all())]
        return list(dict.fromkeys([*own, *(path.name for path in kept)]))

    def split_of(self, settings: Mapping[str, Any]) -> Split | None:
        """Return the split of a run among those that the page knows."""
        return next((s for s in self.splits.values() if str(s.path.resolve()) == settings.get("split")), None)

    def compare(self, name: str, other: str, *, encode: Encode) -> Comparison:
        """Compare two runs of one split. Raises ``ValueError`` saying why they cannot be."""
        if not {name, other} <= set(self.names()):
            raise ValueError("there is no such run; choose one from the list")
        of = [self.split_of(RunFolder(self.runs / run).settings() or {}) for run in (name, other)]
        if of[0] is None or of[0] is not of[1]:
            raise ValueError(f"{name} and {other} are not runs of one split that this page has")
        return compare_runs(self.runs / name, self.runs / other, of[0], self.jobs.scoring, encode=encode)


class Seen(NamedTuple):
    """What a window has been shown last, so that nothing is sent twice."""

    name: str | None = None
    state: str = ""
    num_rows: int = 0
    order: str = ""


class BatchView(NamedTuple):
    """The outputs of the tab, in the order in which ``app.batch.tab`` wires them."""

    seen: Any
    status: Any
    progress: Any
    runs: Any
    videos: Any
    corpus: Any
    precision_recall: Any
    reliability: Any
    leads: Any
    failures: Any
    states: Any
    latency: Any
    cancel: Any
    videos_csv: Any
    columns_csv: Any
    metrics_json: Any
    charts_json: Any


SAME = BatchView(*(gr.skip() for _ in BatchView._fields))


def start(
    batches: Batches, split: str | None, checkpoint: str, speak: Any, update: Any, devices: str, name: str, order: str
) -> BatchView:
    """Put a run into the line, or go on with the one of the same settings that is there; show it."""
    try:
        job = _make_job(batches, split, checkpoint, speak, update, devices, name.strip())
        batches.jobs.submit(job)
    except (EngineError, ValueError, OSError) as error:
        return SAME._replace(status=say(sentence(error), is_problem=True))
    return show(batches, job.name, order)


def _make_job(
    batches: Batches, split: str | None, checkpoint: str, speak: Any, update: Any, devices: str, name: str
) -> Job:
    chosen = batches.splits.get(split or "")
    if chosen is None:
        raise ValueError("there is no split; choose one")
    work = replace(
        batches.work,
        config=replace(
            batches.work.config,
            speak_threshold=read_threshold(speak, "speak"),
            update_threshold=read_threshold(update, "update"),
        ),
        features=batches.runs / FEATURES,
    )
    if checkpoint.strip() not in ("", work.checkpoint):
        if not batches.takes_paths:
            raise ValueError("this page runs its own checkpoint only")
        work = replace(work, checkpoint=checkpoint.strip(), heads=None)
    settings = describe(chosen, work, find_places(devices))
    if not name:
        name = _find_same(batches, settings) or f"{split}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not set(name) <= NAME_SIGNS or name.startswith(".") or len(name) > LONGEST_NAME:
        raise ValueError(
            f"a run's name has letters, digits, '.', '_' and '-' only, at most {LONGEST_NAME}; got {name[:100]!r}"
        )
    return Job(folder=batches.runs / name, split=chosen, work=work, devices=devices)


def _find_same(batches: Batches, settings: Mapping[str, Any]) -> str | None:
    """Return the run whose outputs follow from the same settings, if there is one."""
    for name in batches.names():
        try:
            found = RunFolder(batches.runs / name).settings() or {}
        except ValueError:
            continue
        if found and not other_settings(found, settings):
            return name
    return None


def cancel(batches: Batches, name: str | None, order: str) -> BatchView:
    """End the run that is shown; what is finished stays."""
    if name is not None:
        batches.jobs.cancel(name)
    return show(batches, name, order)


def show(batches: Batches, name: str | None, order: str) -> BatchView:
    """Show a run: everything that is known of it now."""
    names = batches.names()
    runs = gr.Dropdown(choices=names, value=name if name in names else None)
    if name not in names:
        return _view(Results(), order)._replace(
            seen=Seen(order=order),
            status=say("Choose a split and press Start, or choose a run." if names else "Choose a split, press Start."),
            progress="",
            runs=runs,
            cancel=gr.Button(interactive=False),
            **_downloads(None),
        )
    job = batches.jobs.find(name)
    results = _results(batches, name, job)
    words, is_problem = _status(batches, name, job, results)
    return _view(results, order)._replace(
        seen=_seen(name, job, order),
        status=say(words, is_problem=is_problem),
        progress=draw_progress(job.progress) if job is not None and job.progress is not None else "",
        runs=runs,
        cancel=gr.Button(interactive=job is not None and not job.is_over),
        **_downloads(batches.runs / name),
    )


def tick(batches: Batches, seen: Seen, name: str | None, order: str) -> BatchView:
    """Show what has changed since the window was told last."""
    job = batches.jobs.find(name) if name is not None else None
    now = _seen(name, job, order)
    if job is None or now == seen:
        return SAME if job is None or job.is_over else SAME._replace(**_moving(batches, job))
    is_much = abs(now.num_rows - seen.num_rows) >= max(1, seen.num_rows // 50)
    if now.state == seen.state and not is_much:
        return SAME._replace(**_moving(batches, job))
    return show(batches, name, order)


def _downloads(folder: Path | None) -> dict[str, Any]:
    """Return the buttons that hand out the tables as they are on disk."""
    paths = {table: folder / table if folder is not None else None for table in TABLES}
    return {
        table.replace(".", "_"): gr.DownloadButton(value=str(path), interactive=True)
        if path is not None and path.is_file()
        else gr.DownloadButton(interactive=False)
        for table, path in paths.items()
    }


def _moving(batches: Batches, job: Job) -> dict[str, Any]:
    words, is_problem = _status(batches, job.name, job, Results())
    progress = draw_progress(job.progress) if job.progress is not None else ""
    return {"status": say(words, is_problem=is_problem), "progress": progress}


def _seen(name: str | None, job: Job | None, order: str) -> Seen:
    return Seen(name=name, state=job.state if job else "", num_rows=len(job.rows) if job else 0, order=order)


def _results(batches: Batches, name: str, job: Job | None) -> Results:
    if job is None or job.is_over:
        results = read_results(batches.runs / name)
        if results.rows or job is None:
            return results
    return Results(rows=list(job.rows.values()))


def _view(results: Results, order: str) -> BatchView:
    data = results.charts
    return SAME._replace(
        videos=video_table(results.rows, order),
        corpus=draw_corpus(results.metrics),
        precision_recall=charts.precision_recall(data),
        reliability=charts.reliability(data),
        leads=charts.leads(data),
        failures=charts.failures(data),
        states=charts.states(data),
        latency=charts.latency(data),
    )


def _status(batches: Batches, name: str, job: Job | None, results: Results) -> tuple[str, bool]:
    """Return a sentence about a run, and whether it tells of a problem."""
    if job is None:
        if not results.metrics:
            return f"{name} is not scored: it was ended before its last video. Start it again to go on.", True
        errors = len(results.metrics.get("errors", {}))
        return f"{name}: {len(results.rows)} videos{f', {errors} of them failed' if errors else ''}.", bool(errors)
    failed = sum(bool(row["error"]) for row in job.rows.values())
    failures = f", {failed} of them failed" if failed else ""
    match job.state:
        case "waiting":
            place = batches.jobs.under_way().index(job) if job in batches.jobs.under_way() else 0
            wait_s = batches.jobs.wait_s(job)
            eta = f", about {clock(wait_s)} until its turn" if wait_s else ""
            return f"{name} waits: {place} before it{eta}.", False
        case "running" if job.progress is None:
            return f"{name}: loading the checkpoint.", False
        case "running":
            return f"{name}: {_rate_words(job.progress)}{failures}.", bool(failed)
        case "scoring":
            return f"{name}: all {len(job.rows)} videos are run{failures}; scoring.", bool(failed)
        case "done":
            missing = f"; {job.problem}" if job.problem else ""
            return sentence(f"{name}: {len(job.rows)} videos{failures}{missing}"), bool(failed or job.problem)
        case "cancelled":
            return f"{name} was cancelled; {len(job.rows)} finished videos are kept. Start it again to go on.", False
        case _:
            return f"{name} ended: {sentence(job.problem)}", True


def _rate_words(progress: Progress | None) -> str:
    assert progress is not None
    rest = "" if progress.remaining_s is None else f", {clock(progress.remaining_s)} left"
    return f"{progress.num_finished} of {progress.num_videos} videos, {progress.frames_per_s:.0f} frames/s{rest}"


def draw_progress(progress: Progress) -> str:
    """Draw a bar for the whole run and a line for each process: device, video, frames and its rate."""
    lines = []
    for station in progress.stations:
        rate = station.total_done / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
        at = f"{station.video_id}, frame {station.num_done} of {station.num_frames}" if station.video_id else "waits"
        lines.append(f"<li><b>{escape(station.name)}</b> {escape(at)} <span>{rate:.0f} frames/s</span></li>")
    return (
        f'<progress value="{progress.num_done}" max="{max(1, progress.num_frames)}" aria-label="frames done">'
        f'</progress><ul class="stations">{"".join(lines)}</ul>'
    )


def open_video(bench: Bench, batches: Batches, live: LiveRun | None, name: str | None, event: gr.SelectData) -> Page:
    """Show a video of a run in the player at its worst moment.

    Returns ``ClipView``, ``RunView``, ``Buttons``, ``Thresholds``, and which tab is open.
    """
    return _open(bench, batches, live, str(event.row_value[0]), names=(name,), open_at="worst")


def open_turn(
    bench: Bench, batches: Batches, live: LiveRun | None, name: str | None, other: str | None, event: gr.SelectData
) -> Page:
    """Show a turn of two runs in the player, the lanes of the other run below; returns what ``open_video`` does."""
    video_id, time_s, *_ = event.row_value
    return _open(bench, batches, live, str(video_id), names=(name, other), open_at=float(time_s))


def _open(
    bench: Bench,
    batches: Batches,
    live: LiveRun | None,
    video_id: str,
    *,
    names: tuple[str | None, ...],
    open_at: float | Literal["worst"],
) -> Page:
    try:
        saved, *rest = [read_saved(bench, batches, name or "", video_id) for name in names]
        clip = saved.clip
        video = bench.copies.find_or_convert(clip.path)
    except (EngineError, ValueError, OSError) as error:
        gr.Warning(escape(sentence(error)))
        return (gr.skip(),) * (len(ClipView._fields) + 4 + len(Buttons._fields) + 2 + 1)
    if live is not None:
        live.stop()
    task = saved.task
    clip_view = ClipView(
        clip=clip,
        video=str(video),
        chosen=clip.name if clip.is_bundled else None,
        upload=None,
        goal=task.goal,
        steps="\n".join(f"{step.id}: {step.name}" for step in task.steps),
        user_turns="\n".join(f"{turn.time_s:g}: {turn.text}" for turn in task.user_turns),
    )
    runs = " and ".join(run.name for run in (saved, *rest))
    where = "at its worst moment" if open_at == "worst" else f"at {clock(open_at, digits=1)}"
    status = f"{clip.name} in the run {runs}, {clock(clip.duration_s)}, {where}. Press N for the next failure."
    run_view = show_run(saved, status, encode=bench.encode, open_at=open_at, other=rest[0] if rest else None)
    buttons = Buttons(live=LiveRun(run=saved), run=gr.Button(interactive=True), stop=gr.Button(interactive=False))
    thresholds = Thresholds(speak=saved.config.speak_threshold, update=saved.config.update_threshold)
    return (*clip_view, *run_view, *buttons, *thresholds, gr.Tabs(selected="player"))


class CompareView(NamedTuple):
    """The outputs of the comparison."""

    said: Any
    scores: Any
    videos: Any
    turns: Any


def compare(bench: Bench, batches: Batches, name: str | None, other: str | None, who: str) -> CompareView:
    """Hold the run that is shown (A) against another (B)."""
    try:
        if not name or not other or name == other:
            raise ValueError("choose two runs: A above, B here")
        found = batches.compare(name, other, encode=bench.encode)
    except (ValueError, OSError) as error:
        return CompareView(said=sentence(error), scores="", videos=[], turns=[])
    left = f" {len(found.left_out)} videos are left out: not finished in both." if found.left_out else ""
    said = f"A is {name}, B is {other}; {len(found.videos)} videos.{left} A turn opens both in the player."
    split = batches.split_of(_settings_of(batches, name))
    assert split is not None
    samples = {sample.video_id: sample for sample in split.samples}
    return CompareView(
        said=said,
        scores=draw_differences(found.differences),
        videos=compared_videos(found.videos),
        turns=compared_turns(found.videos, samples, who),
    )


def read_saved(bench: Bench, batches: Batches, name: str, video_id: str) -> Run:
    """Read one video of a run folder. Raises ``ValueError`` saying why it cannot be shown."""
    if name not in batches.names():
        raise ValueError(f"there is no run {name!r}; choose one from the list")
    folder = RunFolder(batches.runs / name)
    settings = folder.settings() or {}
    split = batches.split_of(settings)
    if split is None:
        raise ValueError(f"the run is of the split {settings.get('split')}; start the page with --split for it")
    sample = next((sample for sample in split.samples if sample.video_id == video_id), None)
    record = folder.record(video_id)
    if sample is None or sample.video_path is None:
        raise ValueError(f"{video_id} has no video in {split.path.name}")
    if record is None or record.error:
        raise ValueError(f"{video_id} has no outputs: {record.error if record else 'it has not been run'}")
    return Run(
        clip=clip_of(sample, sample.video_path, is_bundled=_is_bundled(bench, sample)),
        task=Task(
            goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state
        ),
        config=_config(settings, sample),
        model_digest=str(settings.get("model_digest", "")),
        outputs=folder.outputs(video_id),
        name=name,
        is_finished=True,
    )


def _is_bundled(bench: Bench, sample: Sample) -> bool:
    return any(clip.sample == sample for clip in bench.demos.clips)


def _config(settings: Mapping[str, Any], sample: Sample) -> StreamConfig:
    try:
        return StreamConfig(**{**settings.get("config", {}), "fps": sample.fps})
    except TypeError as error:
        raise ValueError("the run was made with settings that this version does not know") from error


def enter(batches: Batches, name: str | None, order: str) -> Page:
    """Come to the tab: show the run under way, or the newest; ask again and again while the tab is open."""
    names = batches.names()
    return (*show(batches, name or (names[0] if names else None), order), gr.Timer(active=True))


def leave() -> Any:
    """Ask no more."""
    return gr.Timer(active=False)


def others(batches: Batches, name: str | None, other: str | None) -> Any:
    """Offer the runs that the one that is shown can be held against."""
    names = [run for run in batches.names() if run != name]
    return gr.Dropdown(choices=names, value=other if other in names else None)


class SweepView(NamedTuple):
    """The outputs of the sweep; ``best`` is what the button applies."""

    said: Any
    heat: Any
    curves: Any
    best: Any
    apply: Any


NO_SWEEP = SweepView(said=gr.skip(), heat="", curves=None, best=None, apply=gr.Button(interactive=False))


def preview_sweep(batches: Batches, name: str | None, metric: str, size: int) -> SweepView:
    """Score a grid from the traces of the run that is shown."""
    try:
        split = batches.split_of(_settings_of(batches, name))
        if name is None or split is None:
            raise ValueError("choose a run of a split that this page has")
        return _show_sweep(preview(read_traces(batches.runs / name, split), make_grid(size)), metric)
    except (ValueError, OSError) as error:
        return NO_SWEEP._replace(said=sentence(error))


def exact_sweep(
    bench: Bench, batches: Batches, name: str | None, metric: str, size: int, device: str
) -> Generator[SweepView]:
    """Run the split of the run that is shown at every point of a grid; what is finished is kept."""
    try:
        settings = _settings_of(batches, name)
        split = batches.split_of(settings)
        if name is None or split is None:
            raise ValueError("choose a run of a split that this page has")
        work = replace(batches.work, checkpoint=settings.get("checkpoint", batches.work.checkpoint))
        work = replace(work, features=batches.runs / FEATURES)
        folder = batches.runs / SWEEPS / f"{split.path.stem}-{settings.get('model_digest', '')[:8]}-{size}"
        scoring, grid = batches.jobs.scoring, make_grid(size)
        moments = run_sweep(
            split, work, grid, out=folder, scoring=scoring, encode=bench.encode, device=_one(device), resume=True
        )
        with closing(moments):
            for moment in moments:
                yield SAME_SWEEP._replace(said=_sweep_words(moment))
        yield _show_sweep(read_sweep(folder), metric)
    except (EngineError, ValueError, OSError) as error:
        yield NO_SWEEP._replace(said=sentence(error))


def _one(devices: str) -> str:
    """Return the one device of a sweep: on the CPU a single thread, which is fastest for small models."""
    place = find_places(devices)[0].device
    return "cpu:1" if place == "cpu" else place


def apply_best(best: BestPoint | None) -> tuple[Any, Any, Any, Any]:
    """Set the thresholds of both tabs to the best point."""
    if best is None:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip()
    return best.speak_threshold, best.update_threshold, best.speak_threshold, best.update_threshold


SAME_SWEEP = SweepView(*(gr.skip() for _ in SweepView._fields))


def _settings_of(batches: Batches, name: str | None) -> Mapping[str, Any]:
    if name is None or name not in batches.names():
        return {}
    return RunFolder(batches.runs / name).settings() or {}


def _show_sweep(scores: GridScores, metric: str) -> SweepView:
    best = find_best(scores, metric)
    return SweepView(
        said=describe_sweep(scores, best),
        heat=draw_heat_map(scores, best),
        curves=curves(scores, best),
        best=best,
        apply=gr.Button(f"Use {best.speak_threshold:g} and {best.update_threshold:g}", interactive=True),
    )


def _sweep_words(moment: SweepProgress) -> str:
    rest = "" if moment.remaining_s is None else f", {clock(moment.remaining_s)} left"
    return (
        f"{moment.num_done} of {moment.num_runs} runs, {moment.num_finished} of {moment.num_videos} videos, "
        f"{moment.passes:,} model passes{rest}."
    )
