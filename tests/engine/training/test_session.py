"""A session that is stopped and continued equals one that was not; a diverged one ends with a sentence."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.training.config import Schedule, TrainConfig
from stepscope.engine.training.curves import WORK_FOLDER
from stepscope.engine.training.dataset import EncodedClip, batches
from stepscope.engine.training.objective import Batch, StreamObjective
from stepscope.engine.training.processes import Processes
from stepscope.engine.training.sequences import ContextRules, TrainingClip, TrainingTurn
from stepscope.engine.training.session import Session, Validated, prepare_folder
from stepscope.engine.training.trainer import DivergedError, StepLosses, Trainer
from tests.support.streams.fakes import STEPS, tiny_checkpoint


class Memory:
    """Features in memory."""

    def __init__(self, num_frames: int, seed: int) -> None:
        self.features = torch.randn(num_frames, 1, 32, generator=torch.Generator().manual_seed(seed))

    def read(self, first: int = 0, stop: int | None = None) -> torch.Tensor:
        return self.features[first:stop]


CLIPS = [
    EncodedClip(
        name=str(number),
        clip=TrainingClip(
            goal="g",
            steps=STEPS,
            num_frames=8,
            turns=(TrainingTurn(frame_index=2 + number, role="update", text="S1->start"),),
        ),
        source=Memory(8, number),
    )
    for number in range(3)
]


def make_session(
    checkpoint: Checkpoint, folder: Path, *, rate: float = 1e-2, stop_after: int | None = None, patience: int = 0
) -> tuple[Session[Batch], Trainer[Batch]]:
    model = checkpoint.smolvlm.requires_grad_(True)
    trainer = Trainer(StreamObjective(model, TrainConfig(num_steps=8, learning_rate=rate, negative_rate=0.5)))

    def check_stop() -> None:
        if trainer.num_steps_done == stop_after:
            raise KeyboardInterrupt

    def export() -> None:
        (folder / "model.txt").write_text(str(trainer.num_steps_done))

    session = Session(
        trainer,
        folder=folder,
        settings={"rate": rate},
        schedule=Schedule(interval=3, patience=patience),
        validate=lambda: (-float(trainer.num_steps_done), {}) if patience else (0.0, {}),
        export=export,
        check_stop=check_stop,
    )
    return session, trainer


def run(session: Session[Batch], checkpoint: Checkpoint) -> list[tuple[float, ...]]:
    """Return the losses of all steps."""

    def make_batches(first_step: int) -> Iterator[Batch]:
        return batches(CLIPS, checkpoint, ContextRules(refresh_at=60), batch_size=2, seed=0, first_step=first_step)

    losses = list[tuple[float, ...]]()
    for event in session.run(make_batches):
        if not isinstance(event, Validated):
            losses.append(tuple(event.parts.values()))
    return losses


def test_a_stopped_session_that_continues_equals_one_that_was_not(tmp_path: Path) -> None:
    stop_after = 4
    whole = tiny_checkpoint(tmp_path / "a")
    prepare_folder(tmp_path / "whole", needed_bytes=0, resume=False)
    session, _ = make_session(whole, tmp_path / "whole")
    wanted = run(session, whole)
    assert len(wanted) == 8

    first, again = tiny_checkpoint(tmp_path / "b"), tiny_checkpoint(tmp_path / "c")
    prepare_folder(tmp_path / "parts", needed_bytes=0, resume=False)
    with pytest.raises(KeyboardInterrupt):
        run(make_session(first, tmp_path / "parts", stop_after=stop_after)[0], first)
    progress = json.loads((tmp_path / "parts" / WORK_FOLDER / "progress.json").read_text())
    assert (progress["step"], progress["num_steps"], progress["is_over"]) == (stop_after, 8, False)
    assert progress["best_step"] == 3
    prepare_folder(tmp_path / "parts", needed_bytes=0, resume=True)
    continued, resumed = make_session(again, tmp_path / "parts")
    assert resumed.num_steps_done == stop_after
    assert str(run(continued, again)) == str(wanted[stop_after:]), "nan equals nan in a text"
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name
    kept = [load_file(tmp_path / name / WORK_FOLDER / "state.safetensors") for name in ("whole", "parts")]
    assert kept[0].keys() == kept[1].keys()
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])
    assert str(continued.log.rows) == str(session.log.rows)
    curves = [(tmp_path / name / WORK_FOLDER / "losses.csv").read_text() for name in ("whole", "parts")]
    assert curves[0] == curves[1]
    rows = list(csv.DictReader(curves[0].splitlines()))
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
    found = [float(row["update"] or "nan") for row in rows]
    assert str(found) == str([update for _, _, update in wanted]), "nan equals nan in a text"
    assert any(value > 0 for value in found)


def test_a_session_without_a_better_score_stops_early_and_keeps_the_best(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "a")
    prepare_folder(tmp_path / "out", needed_bytes=0, resume=False)
    session, _ = make_session(checkpoint, tmp_path / "out", patience=1)
    assert len(run(session, checkpoint)) == 6
    assert (tmp_path / "out" / "model.txt").read_text() == "3"
    assert session.log.best_step == 3


def test_a_diverged_session_says_so_and_names_the_checkpoint_that_is_left(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "a")
    prepare_folder(tmp_path / "out", needed_bytes=0, resume=False)
    session, _ = make_session(checkpoint, tmp_path / "out")

    def make_batches(first_step: int) -> Iterator[Batch]:
        for number, (sequences, features) in enumerate(batches(CLIPS, checkpoint, batch_size=2, seed=0)):
            yield sequences, features * (torch.nan if number == 4 else 1)

    with pytest.raises(DivergedError, match=r"the loss of step 5 is nan.*keeps the checkpoint of step 3"):
        for _ in session.run(make_batches):
            pass
    assert all(torch.isfinite(parameter).all() for parameter in checkpoint.smolvlm.parameters())


def test_losses_that_rise_at_once_are_a_divergence_too(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "a")
    trainer = Trainer(StreamObjective(checkpoint.smolvlm.requires_grad_(True), TrainConfig(num_steps=20)))
    backward = trainer.objective.backward
    drawn = iter([0.05, 20.0, *[10.0**power for power in range(3, 11)]])

    def rise(batch: Batch, *, seed: int, processes: Processes) -> StepLosses:
        return replace(backward(batch, seed=seed, processes=processes), total=next(drawn))

    objective: Any = SimpleNamespace(backward=rise)
    trainer.objective = objective
    with pytest.raises(DivergedError, match=r"the loss rose from 0.05 to .* by step 10: training diverged"):
        list(map(trainer.step, batches(CLIPS, checkpoint, batch_size=2, seed=0)))


def test_other_settings_do_not_continue_a_session(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "a")
    prepare_folder(tmp_path / "out", needed_bytes=0, resume=False)
    run(make_session(checkpoint, tmp_path / "out")[0], checkpoint)
    with pytest.raises(ValueError, match=r"was trained with rate 0\.01 \(now 0\.5\)"):
        make_session(checkpoint, tmp_path / "out", rate=0.5)


def test_a_folder_that_cannot_take_the_result_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        prepare_folder(tmp_path / "file", needed_bytes=0, resume=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "model.safetensors").write_text("")
    with pytest.raises(ValueError, match="is not empty; name a new folder"):
        prepare_folder(tmp_path / "full", needed_bytes=0, resume=False)
    with pytest.raises(OSError, match="but its disk has"):
        prepare_folder(tmp_path / "small", needed_bytes=10**18, resume=False)
    with pytest.raises(OSError, match=r"--out /proc/x cannot be written: .*; name another folder"):
        prepare_folder(Path("/proc/x"), needed_bytes=0, resume=False)
    prepare_folder(tmp_path / "new", needed_bytes=0, resume=True)
    assert [path.name for path in (tmp_path / "new").rglob("*")] == [WORK_FOLDER]
