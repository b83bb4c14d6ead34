"""Compares a prediction with a finished run. No torch."""

from dataclasses import dataclass

from eval.data.samples import Split
from eval.planning.predict import Plan
from eval.runs.folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One quantity, predicted and measured."""

    quantity: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative error; 0.1 is 10 % too much."""
        return self.predicted / self.measured - 1 if self.measured else float("nan")


def compare_run(plan: Plan, split: Split, run: RunFolder) -> tuple[Difference, ...]:
    """Return the differences of a prediction from the run folder of the split.

    Raises ``ValueError`` if a video of the split is not finished in the run.
    """
    work_s, peak_mb, num_turns = 0.0, 0.0, 0
    for sample in split.samples:
        record, outputs = run.record(sample.video_id), run.finished_outputs(sample)
        if record is None or not outputs:
            raise ValueError(f"{run.path} has no outputs of {sample.video_id}; give a finished run of the split")
        work_s += record.wall_s or 0.0
        peak_mb = max(peak_mb, record.peak_memory_mb or 0.0)
        num_turns += sum(len(output.updates) + (output.response is not None) for output in outputs)
    sizes = sum(path.stat().st_size for path in run.path.iterdir() if path.is_file())
    return (
        Difference(quantity="turns", predicted=plan.num_turns, measured=num_turns),
        Difference(quantity="worker_s", predicted=plan.worker_s, measured=work_s / plan.num_devices),
        Difference(quantity="worker_mb", predicted=plan.worker_mb, measured=peak_mb),
        Difference(quantity="run_bytes", predicted=plan.run_bytes, measured=sizes),
    )
