"""References of EgoProactive and OmniPro, and scores of results in the same forms."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.protocols.rules import parse_rule
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.data.published import COOKING, EGOPROACTIVE, OMNIPRO, write


def turns_of(path: Path) -> list[tuple[float, float | None, str, str]]:
    (sample,) = read_samples(path)
    return [(turn.time_s, turn.end_s, turn.role, turn.text) for turn in sample.turns]


def test_an_interval_to_interrupt_in_is_a_reply_span(tmp_path: Path) -> None:
    path = write(tmp_path, [EGOPROACTIVE])
    assert turns_of(path) == [
        (0.0, None, "user", "How do I decorate a cover?"),
        (8.0, 16.0, "assistant", "Peel the sticker off."),
        (16.0, 23.5, "assistant", "$interrupt$"),  # an answer without words is a decision too
    ]
    (sample,) = read_samples(path)
    assert (sample.video_id, sample.fps, sample.num_frames) == ("sticker", 2.0, 47)
    assert sample.goal == "Decorating a cover with stickers"
    assert str(sample.video_path).endswith("sticker.mp4")


def test_a_trigger_of_omnipro_is_a_reference_with_the_text_of_its_task(tmp_path: Path) -> None:
    path = write(tmp_path, [OMNIPRO])
    assert turns_of(path) == [
        (2.0, None, "user", "Narrate."),
        (20.5, None, "assistant", "3"),
        (30.0, None, "assistant", "Narrate."),
        (65.0, None, "assistant", "A goal."),
    ]
    (sample,) = read_samples(path)
    assert (sample.video_id, sample.num_frames) == ("en_1", 180)


def test_a_message_of_interactive_cooking_is_a_reference(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "1_7.mp4").touch()
    (sample,) = read_samples(write(tmp_path, [COOKING]), videos=tmp_path / "videos")
    assert [(turn.time_s, turn.role, turn.text) for turn in sample.turns] == [
        (0.0, "assistant", "Crack an egg."),
        (12.5, "assistant", "Well done."),
        (13.0, "assistant", "Microwave it."),
    ]
    assert (sample.video_id, sample.goal, sample.num_frames) == ("1_7", "Microwave Egg Sandwich", 27)
    assert sample.video_path == tmp_path / "videos" / "1_7.mp4"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**COOKING, "output_timestamps": [1.0]}, "output_texts must have one text for each of output_timestamps"),
        ({**COOKING, "output_texts": ["a", "b", 3]}, r"output_texts\[2\].text must be text"),
        ({**COOKING, "output_timestamps": [0, 1, "x"]}, r"output_timestamps\[2\] must be a number"),
        ({**EGOPROACTIVE, "answers": ["Stop"]}, r"answers\[0\].answer must begin with \$interrupt\$ or \$silent\$"),
        (
            {**EGOPROACTIVE, "video_intervals": [[8, 16], [0, 8.5], [16, 23.5]]},
            r"intervals\[0\] must not begin before video_intervals\[1\] ends",
        ),
        ({**EGOPROACTIVE, "duration_in_sec": None}, "duration_in_sec is missing"),
        ({**OMNIPRO, "question_time": "soon"}, "question_time must be seconds, or minutes and seconds such as 01:05"),
        ({**OMNIPRO, "ground_truth": [{}]}, r"ground_truth\[0\].trigger_time is missing"),
        ({**OMNIPRO, "ground_truth": [{"trigger_time_sec": 95}]}, "95"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, record: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_samples(write(tmp_path, [record]))


def test_results_are_scored_against_references_of_the_same_form(tmp_path: Path) -> None:
    split = read_split(write(tmp_path, [EGOPROACTIVE]))
    results = {**EGOPROACTIVE, "answers": ["$interrupt$Now.", "$interrupt$Peel it.", "$silent$"]}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert import_into(tmp_path / "run", [tmp_path / "results.json"], split, {}) == {}
    (sample,) = split.samples
    rule = parse_rule("egoproactive")
    counts = rule.count_outputs(sample, RunFolder(tmp_path / "run").outputs(sample), grade=lambda _: [])
    # 3 chunks: one right interrupt, one false and one missed: F1 of interrupt 2 / 4, and of silent 0.
    assert rule.summarize(counts) == {"macro_f1": 0.25, "g_mean": 0.0, "f1_interrupt": 0.5, "f1_silent": 0.0}
