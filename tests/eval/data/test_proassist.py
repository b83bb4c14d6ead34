import json
import math
from itertools import pairwise
from pathlib import Path

from stepscope.engine.records import Step
from stepscope.eval.data.loading import read_samples
from tests.support.data.published import DIALOGUE, frames_of, write
from tests.support.data.shared_data import shared


def test_the_real_proassist_dialogues_keep_every_reference_on_the_last_frame_before_it() -> None:
    path = shared("data/proassist_dialogues.jsonl")
    samples = read_samples(path)
    assert [len(frames_of(sample, "assistant")) for sample in samples] == [20, 20, 22, 37, 36, 41]
    assert len({sample.video_id for sample in samples}) == 6
    for sample, line in zip(samples, path.read_text().splitlines(), strict=True):
        stored, start = json.loads(line)["conversation"], json.loads(line)["start_frame_idx"]
        pairs = list(pairwise(stored))
        ends = [frames["end"] for frames, turn in pairs if turn["role"] == "assistant"]
        assert frames_of(sample, "assistant") == [end - 1 - start for end in ends]
        users = [turn["time"] for turn in stored if turn["role"] == "user"]
        assert frames_of(sample, "user") == [math.floor(time * 2) - start for time in users]
        words = [turn["content"] for turn in stored if turn["role"] in ("user", "assistant")]
        assert [turn.text for turn in sample.turns] == words
        assert [step.id for step in sample.steps] == ["S1", "S2", "S3", "S4", "S5", "S6", "S7"]
    assert samples[0].steps[6] == Step(id="S7", name="Inspect the chassis")


def test_proassist_turns_stand_where_the_published_model_reads_them(tmp_path: Path) -> None:
    (sample,) = read_samples(write(tmp_path, DIALOGUE))
    # [11, 15) Hello [15, 16) Boil: both on frame 15 - 11 = 4. [16, 21) Done? Done.: both on the last frame, 20 - 11 = 9
    assert [(turn.time_s, turn.role, turn.text) for turn in sample.turns] == [
        (2.0, "user", "Hello"),
        (2.0, "assistant", "Boil water."),
        (4.5, "user", "Done?"),
        (4.5, "assistant", "Done."),
    ]
    assert sample.steps == (Step(id="S1", name="Boil water"), Step(id="S2", name="Pour it in"))
    assert (sample.video_id, sample.goal, sample.num_frames) == ("v_clip0_talk_1", "make tea", 10)
