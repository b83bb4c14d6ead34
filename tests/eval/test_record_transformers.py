"""A loop of transformers is recorded: interrupted, resumed, scored with a split, and opened by the page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

from stepscope.app import opening
from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.web.payload import pack_run
from stepscope.engine import read_frames
from stepscope.eval.data.loading import read_split
from stepscope.eval.recorder import RunRecorder, SignalSpec
from stepscope.eval.runs.folder import NO_REFERENCE, RunFolder
from stepscope.eval.sweeps.preview import read_traces
from tests.eval.test_recorder import score_folder
from tests.support.pages.batch_tab import make_batches
from tests.support.pages.benches import make_context

THRESHOLD = 0.5
SIGNALS = [
    SignalSpec(name="yes", label="P(yes)", threshold=THRESHOLD, decides="speak"),
    SignalSpec(name="entropy", high=10),
]


class Interrupted(BaseException):
    """Ends the program in the middle of a video."""


@pytest.fixture(scope="module")
def context(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AppContext:
    return make_context(tiny_folder, demo_manifest, tmp_path_factory.mktemp("copies"))


def ask(checkpoint: Path, video: Path) -> Iterator[tuple[float, dict[str, torch.Tensor]]]:
    """Yield the time of each frame, and the signals of a model of transformers that sees it."""
    model, tokenizer = (
        AutoModelForImageTextToText.from_pretrained(checkpoint),
        AutoTokenizer.from_pretrained(checkpoint),
    )
    size, config = model.config.vision_config.image_size, model.config
    num_tokens = (size // config.vision_config.patch_size // config.scale_factor) ** 2
    prompt = tokenizer("Is the cabin attached?")["input_ids"]
    ids = torch.tensor([[config.image_token_id] * num_tokens + prompt])
    for frame in read_frames(video, fps=2):
        picture = torch.from_numpy(cv2.resize(frame.image, (size, size))).permute(2, 0, 1) / 127.5 - 1
        with torch.inference_mode():
            probs = model(input_ids=ids, pixel_values=picture[None, None]).logits[0, -1].softmax(-1)
        best = probs.max() / (probs.max() + probs.min())
        yield frame.time_s, {"yes": best, "entropy": -(probs * probs.log()).sum()}


def record(folder: Path, checkpoint: Path, split: Path, *, frames_before_end: int | None = None) -> list[str]:
    """Record the videos of a split without their references; return those that an earlier program finished."""
    kept = []
    with RunRecorder(folder, model="tiny SmolVLM", signals=SIGNALS) as run:
        for number, sample in enumerate(read_split(split).samples):
            if run.is_finished(sample.video_id):
                kept.append(sample.video_id)
                continue
            with run.video(sample.video_id, fps=2, video_path=sample.video_path) as video:
                for time_s, signals in ask(checkpoint, sample.video_path or Path()):
                    if number == 1 and video.num_frames == frames_before_end:
                        raise Interrupted
                    says = bool(signals["yes"] > THRESHOLD)
                    video.frame(time_s, signals=signals, response="Yes." if says else None, state="respond")
    return kept


def test_a_loop_of_transformers_is_recorded_resumed_scored_and_opened(
    context: AppContext, demo_manifest: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    folder = runs / "smolvlm"
    with pytest.raises(Interrupted):
        record(folder, tiny_folder, demo_manifest, frames_before_end=5)
    assert RunFolder(folder).count_videos() == 1
    assert not list(folder.glob("truck-2.jsonl")), "an unfinished video has no outputs"
    assert record(folder, tiny_folder, demo_manifest) == ["truck-1"]
    batches = make_batches(demo_manifest, checkpoint=tiny_folder, runs=runs)
    assert [row["warning"] for row in batches.recorded_rows("smolvlm")] == [NO_REFERENCE] * 2
    run = check_opens(context, batches)
    assert (run["has_reference"], run["run_name"]) == (False, "smolvlm")
    assert [signal["title"] for signal in run["named"]] == ["P(yes)", "entropy"]
    assert run["assistant_states"] == [[0, "respond"]]
    assert score_folder(folder, split=demo_manifest) == 0
    traces = read_traces(folder, read_split(demo_manifest))
    assert [(signal.name, sorted(signal.videos)) for signal in traces.signals] == [("yes", ["truck-1", "truck-2"])]
    scores = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["signal_scores"]["yes"]["scores"]
    assert scores["num_hits"] + scores["num_misses"] > 0, "the references of the split are scored"


def check_opens(context: AppContext, batches: BatchContext) -> dict[str, Any]:
    """Return the run that the page shows of ``truck-2``."""
    saved = opening.read_saved(context, batches, "smolvlm", "truck-2")
    packed: dict[str, Any] = json.loads(pack_run(saved))
    return packed
