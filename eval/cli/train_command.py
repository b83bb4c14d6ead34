"""The command ``train``."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from tqdm import tqdm

from stepscope.engine.cli.interrupts import deferred_interrupts
from stepscope.engine.plurals import format_count
from stepscope.engine.training.curves import WORK_FOLDER
from stepscope.engine.training.processes import Processes, join_processes
from stepscope.engine.training.session import Validated, prepare_folder
from stepscope.engine.training.trainer import DivergedError, Prediction, StepLosses
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.output_folder import lock_folder
from stepscope.eval.runs.tracking import import_trackio, open_tracker
from stepscope.eval.training.job import TrainingJob, TrainingOutcome
from stepscope.eval.training.options import TrainOptions
from stepscope.eval.training.results import summarize


def train(options: TrainOptions) -> int:
    """Train on a split; return 1 if training diverged."""
    if options.train.num_steps < 1:
        raise ValueError(f"--num-steps must be at least 1; got {options.train.num_steps}")
    if options.trackio is not None:
        import_trackio()
    processes = join_processes(options.device)
    try:
        if not processes.is_main:
            processes.wait()  # for the folder
            return _train(options, processes)
        prepare_folder(options.out, needed_bytes=0, resume=options.resume)
        with lock_folder(options.out):
            processes.wait()
            return _train(options, processes)
    finally:
        processes.leave()


def _train(options: TrainOptions, processes: Processes) -> int:
    """Train in this process; the main one prints."""
    job = TrainingJob(options, progress=_show_encoding if processes.is_main else list, processes=processes)
    if processes.is_main:
        _print_clips(job)
    job.check_data()
    if options.dry_run:
        prediction = job.predict()
        if processes.is_main:
            print(_describe(prediction))
        return 0
    try:
        _run(job, is_shown=processes.is_main)
    except DivergedError as error:
        if processes.is_main:
            tqdm.write(f"failed: {error}", file=sys.stderr)
        return 1
    if processes.is_main:
        _print_outcome(job.finish(), options)
    return 0


def _print_clips(job: TrainingJob) -> None:
    for line in summarize(job.data.rows):
        print(line)
    for problem in job.problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(f"all clips: {job.options.out / WORK_FOLDER}/clips.csv", flush=True)


def _print_outcome(outcome: TrainingOutcome, options: TrainOptions) -> None:
    has_score = not math.isnan(outcome.score)
    score = f": validation score {outcome.score:.3f}, before training {outcome.start_score:.3f}" if has_score else ""
    print(f"checkpoint of step {outcome.step} written to {options.out}{score}", flush=True)
    if outcome.score <= outcome.start_score:
        print("warning: training did not raise the validation score; try a lower --learning-rate", file=sys.stderr)


def _run(job: TrainingJob, *, is_shown: bool) -> None:
    """Train to the end, with a progress bar; a signal ends it after the present step."""
    options, config = job.options, job.options.train
    with (
        deferred_interrupts() as check_stop,
        tqdm(total=config.num_steps, unit="step", dynamic_ncols=True, disable=not is_shown) as bar,
        open_tracker(options.trackio if is_shown else None, options.out, job.settings()) as log,
        closing(job.run(check_stop)) as events,
    ):
        for event in events:
            bar.update(job.num_steps_done - bar.n)
            log(_name_values(event), job.num_steps_done)
            if isinstance(event, StepLosses):
                bar.set_postfix_str(str(event), refresh=False)
            elif is_shown and not math.isnan(event.score):
                bar.write(f"step {event.step}: validation {event.score:.3f}{', the best' if event.is_best else ''}")


def _name_values(event: StepLosses | Validated) -> Mapping[str, float]:
    if isinstance(event, StepLosses):
        return {f"loss/{name}": loss for name, loss in event.parts.items()}
    return {"validation/score": event.score}


def _show_encoding(samples: Sequence[Sample]) -> Iterable[Sample]:
    shown: Iterable[Sample] = tqdm(samples, desc="features", unit="video", dynamic_ncols=True, disable=not samples)
    return shown


def _describe(found: Prediction) -> str:
    validation = f", and {found.validation_s / 60:.1f} minutes of validation" if found.validation_s else ""
    return (
        f"{format_count(found.num_steps, 'step')} took {found.step_s:.2f} s each, so that {found.total_steps} take "
        f"about {found.training_s / 60:.1f} minutes{validation}\n"
        f"peak memory {found.peak_memory_mb:.0f} MiB; result and training state need up to "
        f"{found.disk_bytes / 1e9:.2f} GB of disk"
    )
