"""Evidence for a decision: each number is that of a new run with the same change and the same history."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.intervention import ForcedTurn, Intervention, force_outputs
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.evidence.explain import explain_decision
from stepscope.engine.evidence.records import Contrast, Evidence, EvidenceFile, read_evidence, write_evidence
from stepscope.engine.evidence.scoring import randomize
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode_images
from stepscope.engine.records import FrameOutput
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from tests.engine.test_interventions import MODELS, SLOW, Case, load_heads
from tests.support.streams.batches import stream_many
from tests.support.streams.fakes import tiny_checkpoint, tiny_model
from tests.support.streams.streams import TASK

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
FRAME = 38
TOLERANCE = 2e-3


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(*MODELS[request.param](tmp_path_factory.mktemp("tiny")))


def logit(prob: float) -> float:
    return math.log(prob / (1 - prob))


def assert_prob(log_odds: float, prob: float) -> None:
    """Compare log-odds with a probability; one that is 0 or 1 to six digits has no log-odds to compare."""
    if 1e-6 < prob < 1 - 1e-6:
        assert log_odds == pytest.approx(logit(prob), abs=TOLERANCE)
    else:
        # a rule of the most likely token makes every other probability 1
        assert prob == 1 or torch.tensor(log_odds).sigmoid().item() == pytest.approx(prob, abs=2e-6)


def find_frame(recording: Recording) -> int:
    """Return the frame with the most frames since a cut, up to four; the last one of them."""
    cuts = [output.frame_index for output in recording.outputs if output.refreshed]
    return max(range(12, 39), key=lambda n: (min(4, n - max((cut for cut in cuts if cut <= n), default=0)), n))


def run_forced(
    case: Case,
    recording: Recording,
    change: Intervention,
    *,
    frame: int = FRAME,
    features: Sequence[FrameFeatures] | None = None,
    turns: Mapping[int, ForcedTurn] | None = None,
) -> FrameOutput:
    """Return the output at a frame of a new run with an intervention, with the turns of the run before the frame."""
    history = force_outputs(recording.outputs, until=frame)
    history = history if turns is None else replace(history, turns=turns)
    written = recording._prior_run.written if recording._prior_run else {}
    request = StreamRequest(
        video_id="video",
        features=features or case.frames,
        task=change.change_task(TASK),
        intervention=recording.intervention.join(history).join(change),
        prior_run=PriorRun(outputs=(), written=written),
    )
    return stream_many(Streamer(case.checkpoint, case.config), [request], max_batch_size=1)["video"][frame]


def by_frame(evidence: Evidence) -> dict[int, float]:
    return {frame.frame_index: frame.log_odds for frame in evidence.frames if frame.log_odds is not None}


def test_the_evidence_of_a_picture_is_the_change_of_a_new_run_that_shows_the_previous_one(case: Case) -> None:
    recording = case.record()
    frame = find_frame(recording)
    evidence = explain_decision(recording, frame, target="speak", with_texts=False)
    assert_prob(evidence.log_odds, recording.outputs[frame].speak_prob)
    found = by_frame(evidence)
    indices = sorted(found)
    assert indices[-3:] == list(range(frame - 2, frame + 1))
    assert any(abs(value) > 0.01 for value in found.values())
    for index in {indices[0], indices[len(indices) // 2], frame - 1, frame}:
        changed = run_forced(case, recording, Intervention(pictures={index: index - 1}), frame=frame)
        assert_prob(evidence.log_odds - found[index], changed.speak_prob)


def test_the_last_frames_keep_a_decision_as_in_new_runs_with_the_first_picture_before(case: Case) -> None:
    recording = case.record()
    frame = find_frame(recording)
    evidence = explain_decision(recording, frame, target="silence", with_texts=False)
    shown = [other.frame_index for other in evidence.frames]
    assert_prob(-evidence.log_odds, recording.outputs[frame].speak_prob)
    for trial in evidence.last_frames:
        earlier = shown[: len(shown) - trial.num_frames]
        change = Intervention(pictures=dict.fromkeys(earlier, shown[0]))
        assert_prob(-trial.log_odds, run_forced(case, recording, change, frame=frame).speak_prob)
    kept = {trial.num_frames: trial.is_kept for trial in evidence.last_frames}
    assert kept[evidence.fewest_last_frames]
    assert not kept.get(evidence.fewest_last_frames - 1, False)
    assert {1, len(shown)} <= set(kept)


def test_a_random_model_has_evidence_of_its_own_beside(case: Case) -> None:
    recording = case.record()
    frame = find_frame(recording)
    evidence = explain_decision(recording, frame, target="speak")
    again = explain_decision(recording, frame, target="speak", random_model=randomize(case.checkpoint.model))
    assert evidence == again, "the same seed"
    assert evidence.random_log_odds != pytest.approx(evidence.log_odds, abs=1e-3)
    other = explain_decision(recording, frame, target="speak", seed=1)
    assert other.random_log_odds != pytest.approx(evidence.random_log_odds, abs=1e-4)
    assert by_frame(other) == by_frame(evidence)
    assert [other.recency for other in evidence.frames[-3:]] == [1 / 3, 1 / 2, 1]
    difference = (case.frames[frame].features - case.frames[frame - 1].features).abs().mean()
    assert evidence.frames[-1].difference == pytest.approx(float(difference))


def sum_logprobs(recording: Recording, frame: int, text_ids: Sequence[int]) -> float:
    """Return the log-probability of a forced text and of its end, from the inspected tokens."""
    tokens = [token for n in (frame, frame + 1) for token in recording.inspect(n).tokens if token.is_fed]
    fed = [token.token_id for token in tokens]
    place = max(n for n in range(len(fed)) if fed[n : n + len(text_ids)] == list(text_ids))
    return sum(token.logprob or 0 for token in tokens[place : place + len(text_ids) + 1])


@pytest.mark.parametrize("name", ["heads", "sink-window", "hub-answers"])
def test_a_contrast_is_the_difference_of_the_logprobs_of_both_texts(name: str, tmp_path: Path) -> None:
    case = Case(*MODELS[name](tmp_path))
    recording, codec = case.record(), case.checkpoint.prompt
    texts = ("Good.", "Now the roof.")
    frame = find_frame(recording) - 1
    sums = []
    for text in texts:
        forced = {frame: ForcedTurn(response=text), frame + 1: ForcedTurn()}
        branch = recording.branch(Intervention(turns=forced))
        list(branch.run())
        sums.append(sum_logprobs(branch, frame, codec.words(text)))
    contrast = Contrast(written=texts[1], expected=texts[0], kind="response")
    evidence = explain_decision(branch, frame, target=contrast)
    assert evidence.log_odds == pytest.approx(sums[1] - sums[0], abs=TOLERANCE)
    assert (evidence.target, evidence.contrast, evidence.threshold) == ("text", contrast, 0)
    assert max(abs(value) for value in by_frame(evidence).values()) > 0.01


def test_a_contrast_of_answers_is_that_of_both_questions(tmp_path: Path) -> None:
    case = Case(*MODELS["hub-answers"](tmp_path))
    recording = case.record()
    frame = find_frame(recording)
    first = explain_decision(recording, frame, target="update", with_texts=False)
    assert_prob(first.log_odds, recording.outputs[frame].update_prob)
    contrast = Contrast(written="S2->complete", expected="S1->start")
    there, back = (
        explain_decision(recording, frame, target=target)
        for target in (contrast, Contrast(written=contrast.expected, expected=contrast.written))
    )
    assert there.log_odds == pytest.approx(-back.log_odds, abs=1e-4)
    assert abs(there.log_odds) > 1e-3
    with pytest.raises(ValueError, match="an update of a step of the task is needed; got 'S7->start'"):
        explain_decision(recording, frame, target=replace(contrast, expected="S7->start"))


def swap(task: Task, change: str) -> Task:
    first, second = task.steps
    if change == "places swapped":
        return replace(task, steps=(second, first))
    return replace(task, steps=(replace(first, name=second.name), replace(second, name=first.name)))


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(*load_heads(tmp_path_factory.mktemp("heads")))


def test_swapped_steps_are_those_of_a_new_run_with_another_task(heads: Case) -> None:
    recording, frame = heads.record(), 2
    evidence = explain_decision(recording, frame, target="update")
    swaps = {text.change: text for text in evidence.texts if "swapped" in text.change}
    assert set(swaps) == {"names swapped", "places swapped"}
    for change, text in swaps.items():
        assert text.text == "S1, S2"
        output = run_forced(heads, recording, Intervention(task=swap(TASK, change)), frame=frame)
        assert text.log_odds == pytest.approx(evidence.log_odds - logit(output.update_prob), abs=1e-4)
        assert abs(text.log_odds) > 1e-3
    lines = [text.text for text in evidence.texts if text.change == "line removed"]
    assert "- S1: attach the wheel (NOT_STARTED)" in lines


def test_a_removed_turn_is_that_of_a_new_run_which_is_silent_there(heads: Case) -> None:
    recording = heads.record()
    evidence = explain_decision(recording, FRAME, target="update")
    shown = [frame.frame_index for frame in evidence.frames]
    history = force_outputs(recording.outputs, until=FRAME).turns
    inside = [index for index in shown[:-1] if index in history]
    removed = [text.log_odds for text in evidence.texts if text.change == "turn removed"]
    assert inside
    assert len(removed) == len(inside)
    for index, value in zip(inside, removed, strict=True):
        turns = {frame: turn for frame, turn in history.items() if frame != index}
        # the state of the prompt is older than the context
        output = run_forced(heads, recording, Intervention(), turns=turns)
        assert value == pytest.approx(evidence.log_odds - logit(output.update_prob), abs=TOLERANCE)


def test_a_branch_with_other_pictures_is_explained_with_the_pictures_that_it_showed(heads: Case) -> None:
    shown = Intervention(pictures={FRAME - 2: 3, FRAME: 5})
    recording = heads.record().branch(shown)
    list(recording.run())
    evidence = explain_decision(recording, FRAME, target="speak", with_texts=False)
    assert evidence.log_odds == pytest.approx(logit(recording.outputs[FRAME].speak_prob), abs=TOLERANCE)
    changed = run_forced(heads, recording, Intervention(pictures={FRAME - 1: 3}))
    assert by_frame(evidence)[FRAME - 1] == pytest.approx(evidence.log_odds - logit(changed.speak_prob), abs=TOLERANCE)


def test_patches_are_those_of_new_runs_with_the_changed_picture(tmp_path: Path) -> None:
    checkpoint, config = load_heads(tmp_path)
    random = np.random.default_rng(0)
    pictures = dict(enumerate(random.integers(0, 256, (40, 24, 24, 3), dtype=np.uint8)))
    case = Case(checkpoint, replace(config, speak_threshold=1.0, update_threshold=1.0))
    encoded = encode_images(checkpoint, pictures.values())
    case.frames = [
        FrameFeatures(index=index, time_s=index / 2, features=features) for index, features in enumerate(encoded)
    ]
    recording, place = case.record(), FRAME - 3
    evidence = explain_decision(recording, FRAME, pictures=pictures, patches_frame=place, with_texts=False)
    assert (evidence.target, evidence.difference_of, evidence.patches_frame) == ("silence", "pixels", place)
    assert evidence.patches_noise == pytest.approx(0, abs=1e-4)
    assert [(patch.row, patch.column) for patch in evidence.patches] == [(n // 8, n % 8) for n in range(64)]
    patch = max(evidence.patches, key=lambda patch: abs(patch.log_odds))
    rows, columns = slice(3 * patch.row, 3 * patch.row + 3), slice(3 * patch.column, 3 * patch.column + 3)
    picture = pictures[place].copy()
    picture[rows, columns] = pictures[place - 1][rows, columns]
    frames = list(case.frames)
    frames[place] = replace(frames[place], features=encode_images(checkpoint, [picture])[0])
    changed = run_forced(case, recording, Intervention(), features=frames)
    assert abs(patch.log_odds) > 1e-3
    assert patch.log_odds == pytest.approx(evidence.log_odds + logit(changed.speak_prob), abs=1e-4)
    differences = np.abs(pictures[place] - pictures[place - 1].astype(float))[rows, columns] / 255
    assert patch.difference == pytest.approx(differences.mean(), rel=1e-4)


def test_a_model_without_attention_reads_the_last_picture_alone(tmp_path: Path) -> None:
    checkpoint, config = load_heads(tmp_path)
    for layer in checkpoint.model.text_model.layers:
        nn.init.zeros_(layer.self_attn.o_proj.weight)
    recording = Case(checkpoint, replace(config, speak_threshold=0.5)).record()
    evidence = explain_decision(recording, FRAME, target="speak")
    values = by_frame(evidence)
    assert abs(values.pop(FRAME)) > 0.01
    assert len(values) > 5
    assert max(map(abs, values.values())) < 1e-5
    assert max(abs(text.log_odds) for text in evidence.texts) < 1e-5
    assert evidence.fewest_last_frames <= 1


def marked_checkpoint(tmp_path: Path) -> Checkpoint:
    """Return a model that reads the first number of a picture's features alone."""
    checkpoint = tiny_checkpoint(tmp_path)
    model = tiny_model(feature_dim=8)
    assert isinstance(model.vision_projector, nn.Sequential)
    with torch.no_grad():
        model.vision_projector.get_parameter("0.weight")[:, 1:] = 0
    return replace(checkpoint, model=model.eval())


def test_a_model_that_reads_one_earlier_picture_gives_it_all_evidence(tmp_path: Path) -> None:
    checkpoint, onset = marked_checkpoint(tmp_path), 9
    random = torch.Generator().manual_seed(0)
    frames = []
    for index in range(20):
        features = torch.randn(1, 8, generator=random)
        features[:, 0] = 3.0 if index >= onset else 0.0  # all other numbers change, and are not read
        frames.append(FrameFeatures(index=index, time_s=index / 2, features=features))
    recording = Recording(checkpoint, frames, config=StreamConfig(speak_threshold=1, update_threshold=1))
    list(recording.run())
    evidence = explain_decision(recording, 19, target="speak")
    values = by_frame(evidence)
    assert abs(values.pop(onset)) > 0.01
    assert len(values) == 18, "the first picture of the video has none before it"
    assert max(map(abs, values.values())) < 1e-5
    assert all(frame.difference > 0.1 for frame in evidence.frames[1:] if frame.difference is not None)


def test_random_weights_keep_shapes_spread_and_the_encoder(tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path).model
    new = randomize(model, seed=3)
    old_weights, new_weights = dict(model.named_parameters()), dict(new.named_parameters())
    assert old_weights.keys() == new_weights.keys()
    for name, old in old_weights.items():
        is_drawn = "vision_model" not in name and "connector" not in name
        is_constant = old.numel() < 2 or bool((old == old.flatten()[0]).all())
        assert torch.equal(old, new_weights[name]) == (not is_drawn or is_constant), name
        if is_drawn and old.numel() > 2000:
            assert float(new_weights[name].std().detach()) == pytest.approx(float(old.std().detach()), rel=0.1)
    assert new.lm_head.weight is new.text_model.get_input_embeddings().weight, "still tied"


def test_evidence_is_the_same_after_its_file(heads: Case, tmp_path: Path) -> None:
    recording = heads.record()
    evidence = tuple(explain_decision(recording, frame) for frame in (0, 5, FRAME))
    content = EvidenceFile(source="", model_digest="", heads_digest="", decisions=evidence)
    path = tmp_path / "boat.evidence.json"
    write_evidence(path, content)
    assert read_evidence(path) == content
    path.write_text(path.read_text().replace('"recency"', '"age"'))
    with pytest.raises(ValueError, match=r"boat.evidence.json cannot be read: decisions\[0\].frames\[0\]"):
        read_evidence(path)


def test_the_limit_of_cost_leaves_out_early_frames_but_none_that_the_decision_needs(heads: Case) -> None:
    recording = heads.record()
    full = explain_decision(recording, FRAME, target="speak", with_texts=False)
    cheap = explain_decision(recording, FRAME, target="speak", with_texts=False, max_tokens=20)
    assert 0 < len(by_frame(cheap)) < len(by_frame(full))
    assert by_frame(cheap) == pytest.approx({index: by_frame(full)[index] for index in by_frame(cheap)}, abs=1e-4)
    assert len(by_frame(explain_decision(recording, FRAME, target="speak", max_tokens=0))) == full.fewest_last_frames


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "listen"}, "target must be speak, update, silence or a Contrast; got 'listen'"),
        ({"target": Contrast(written="S9->start", expected="S1->start")}, "frame 38 has no update 'S9->start'"),
        ({"patches_frame": FRAME}, "the patches of frame 38 need the pictures 37 and 38"),
        ({"patches_frame": 39}, "frame 39 has no patches"),
    ],
)
def test_a_wrong_use_is_named(heads: Case, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain_decision(heads.record(), FRAME, **options)


def test_a_frame_of_no_run_and_a_probed_run_have_no_evidence(heads: Case) -> None:
    recording = heads.record()
    with pytest.raises(ValueError, match="frame 99 does not exist; the run has 40 frames"):
        explain_decision(recording, 99)
    probed = recording.branch(Intervention(until=5, is_probed=True))
    list(probed.run())
    with pytest.raises(ValueError, match="a probed run keeps other turns"):
        explain_decision(probed, 9)
