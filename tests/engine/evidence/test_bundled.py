"""Evidence of the bundled model for one decision: known numbers, and those of captum's feature ablation."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from captum.attr import FeatureAblation
from torch import Tensor

from stepscope.engine.control.requests import Image
from stepscope.engine.control.task import Task
from stepscope.engine.evidence.explain import Pictures, explain_decision
from stepscope.engine.evidence.records import Target
from stepscope.engine.loading import load_model
from stepscope.engine.model.features.frame_encoder import FrameResizer
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import read_frames
from stepscope.eval.cli.bench import read_videos
from tests.support.paths import ASSETS

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def boat() -> Recording:
    """The first 30 s of a video."""
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    (video,) = read_videos(ASSETS / "demo" / "test.json", checkpoint, only={"boat"})
    recording = Recording(checkpoint, list(video.features)[:60], task=video.task)
    list(recording.run())
    return recording


def test_the_sail_is_completed_by_its_own_frame_and_the_one_before(boat: Recording) -> None:
    evidence = explain_decision(boat, 59, target="update", with_texts=False)
    before, last = evidence.frames[-2:]
    assert evidence.time_s == 29.5
    assert before.log_odds == pytest.approx(0.36, abs=0.01)
    # alone, the picture before is redundant; without all earlier pictures the decision is lost
    alone = next(trial for trial in evidence.last_frames if trial.num_frames == 1)
    assert alone.log_odds == pytest.approx(-10.4, abs=0.05)
    assert evidence.fewest_last_frames == 2
    assert last.log_odds is not None
    assert last.log_odds > 15
    assert max(abs(frame.random_log_odds or 0) for frame in evidence.frames) < last.log_odds / 5


@pytest.fixture(scope="module")
def sail(boat: Recording) -> Recording:
    """The last 8 of these frames as a video of their own, with the state before them."""
    frames = [replace(frame, index=index, time_s=index / 2) for index, frame in enumerate(boat.features[52:])]
    task = Task(goal=boat.task.goal, steps=boat.task.steps, initial_state=boat.outputs[51].dst_state)
    recording = Recording(boat.checkpoint, frames, task=task)
    list(recording.run())
    return recording


def list_pieces(recording: Recording) -> list[int | Image]:
    """Return the tokens and pictures of the one context of a recording up to its last picture."""
    trace, _ = recording.trace(len(recording.outputs) - 1)
    (items,) = trace.contexts
    pieces = [item.item.piece for item in items]
    last = max(number for number, piece in enumerate(pieces) if isinstance(piece, Image))
    return pieces[: last + 1]


def read_log_odds(recording: Recording, features: Sequence[Tensor], target: Target) -> Tensor:
    """Return the log-odds ``[N]`` at the last picture, for ``N`` variants ``[N, I, F]`` of each picture.

    One pass over the whole context, without KV cache, branches and packing.
    """
    model, embedded = recording.checkpoint.model, list[Tensor]()
    for piece in list_pieces(recording):
        if isinstance(piece, Image):
            embedded.append(model.embed_frames(features[piece.frame_index]))
        else:
            embedded.append(model.embed_tokens(torch.tensor([piece])).expand(len(features[0]), 1, -1))
    hidden = model(torch.cat(embedded, dim=1))[:, -1]
    speak, update = model.decision_logits(hidden)
    return {"speak": speak, "update": update, "silence": -speak}[target]


@pytest.mark.parametrize("target", ["speak", "update", "silence"])
@torch.inference_mode()
def test_the_evidence_of_pictures_is_that_of_captums_feature_ablation(sail: Recording, target: Target) -> None:
    features = torch.stack([frame.features for frame in sail.features])[None]  # [1, T, I, F]
    previous = torch.cat([features[:, :1], features[:, :-1]], dim=1)
    attributions = FeatureAblation(lambda batch: read_log_odds(sail, batch.unbind(1), target)).attribute(
        features, baselines=previous, feature_mask=torch.arange(8)[None, :, None, None], perturbations_per_eval=8
    )
    evidence = explain_decision(sail, 7, target=target, with_texts=False)
    by_captum = attributions[0, :, 0, 0].tolist()
    assert [frame.log_odds for frame in evidence.frames[1:]] == pytest.approx(by_captum[1:], abs=TOLERANCE)
    assert max(map(abs, by_captum)) > 10
    assert min(map(abs, by_captum[1:])) > TOLERANCE, "also the small ones are compared"


@torch.inference_mode()
def test_the_evidence_of_patches_is_that_of_captums_feature_ablation(sail: Recording) -> None:
    checkpoint, path = sail.checkpoint, ASSETS / "demo" / "boat.mp4"
    frames = [frame for frame in read_frames(path, fps=2) if frame.index in (58, 59)]
    pictures: Pictures = {frame.index - 52: frame.image for frame in frames}
    resizer = FrameResizer(checkpoint.model)
    previous, shown = (
        normalize_images([resizer.resize(pictures[number])], size=(96, 96), normalization=checkpoint.normalization)
        for number in (6, 7)
    )

    def read(pixels: Tensor) -> Tensor:
        variants = [frame.features.expand(len(pixels), -1, -1) for frame in sail.features[:-1]]
        return read_log_odds(sail, [*variants, checkpoint.model.encode_images(pixels)], "update")

    rows = torch.arange(96) // 12
    mask = (8 * rows[:, None] + rows)[None, None]
    attributions = FeatureAblation(read).attribute(
        shown, baselines=previous, feature_mask=mask, perturbations_per_eval=16
    )
    evidence = explain_decision(sail, 7, target="update", pictures=pictures, patches_frame=7, with_texts=False)
    by_captum = attributions[0, 0, ::12, ::12].flatten().tolist()
    assert [patch.log_odds for patch in evidence.patches] == pytest.approx(by_captum, abs=TOLERANCE)
    assert max(map(abs, by_captum)) > 1
    assert all(by_captum)
