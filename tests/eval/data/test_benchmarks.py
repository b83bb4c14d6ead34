"""References of EgoProactive, OmniPro, Interactive Cooking and QEVD, and scores of results in the same forms."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import InvalidSample
from stepscope.eval.protocols.rules import parse_rule
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.data.published import COOKING, EGOPROACTIVE, OMNIPRO, QEVD, QEVD_TIMES_NS, write, write_qevd


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


def test_an_exercise_of_qevd_with_feedback_is_a_sample_from_transition_to_transition(tmp_path: Path) -> None:
    squats, planks = read_samples(write_qevd(tmp_path))
    assert [(turn.time_s, turn.role, turn.text) for turn in squats.turns] == [
        (2.49, "assistant", "Lower."),
        (4.0, "assistant", "Good."),
    ]
    assert [(turn.time_s, turn.text) for turn in planks.turns] == [(1.49, "Hold it."), (2.49, "Hold it.")]
    assert (squats.video_id, squats.goal, squats.fps, squats.num_frames) == ("0003_0", "squats", 2.0, 11)
    assert (planks.video_id, planks.goal, planks.num_frames) == ("0003_2", "planks", 7)  # no feedback on lunges
    assert (squats.start_s, planks.start_s) == (0.51, 7.51)
    assert squats.video_path == planks.video_path == tmp_path / "long_range_videos" / "0003.mp4"


@pytest.mark.parametrize("unix_s", [0.0, 1_700_000_000.25 + 7.51 + 28_800])
def test_results_of_qevd_have_seconds_of_the_exercise_or_unix_times(tmp_path: Path, unix_s: float) -> None:
    split = read_split(write_qevd(tmp_path))
    times = [unix_s + time_s for time_s in (0.5, 2.5, 3.5)]  # the last one is the end of the exercise
    results = {"mini_episode_id": "0003_2", "pred_feedbacks": ["Up.", "", "Hold."], "pred_feedback_timestamps": times}
    (tmp_path / "results.json").write_text(json.dumps([results]))
    assert import_into(tmp_path / "run", [tmp_path / "results.json"], split, {}) == {}
    outputs = RunFolder(tmp_path / "run").outputs(split.samples[1])
    assert [(output.time_s, output.response) for output in outputs if output.response] == [(0.5, "Up."), (3.0, "Hold.")]


@pytest.mark.parametrize(
    ("changes", "times_ns", "message"),
    [
        ({"feedbacks": None}, [0.0, 0.5], "feedbacks is missing; it must have a text .* competition split has no"),
        ({"feedbacks": ["x"]}, QEVD_TIMES_NS, "feedbacks must have 24 texts, as video_timestamps has times, not 1"),
        ({"video_timestamps": "x" * 999}, QEVD_TIMES_NS, "video_timestamps must name a .npy file that can be read"),
        ({}, [2e17, 2.5e17, 1.9e17], "must not fall back: frame 2 is 6e[+]07 s before the last"),
    ],
)
def test_a_wrong_field_of_qevd_is_named(tmp_path: Path, changes: dict[str, Any], times_ns: Any, message: str) -> None:
    path = write_qevd(tmp_path, {**QEVD, **changes}, times_ns)
    with pytest.raises(ValueError, match=rf"data.txt, video number 0: .*{message}") as caught:
        read_samples(path)
    assert "\n" not in str(caught.value)
    (entry,) = read_split(path).entries
    assert isinstance(entry, InvalidSample)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**COOKING, "output_timestamps": [1.0]}, "output_texts must have one text for each of output_timestamps"),
        ({**EGOPROACTIVE, "answers": ["Stop"]}, r"answers\[0\].answer must begin with \$interrupt\$ or \$silent\$"),
        (
            {**EGOPROACTIVE, "video_intervals": [[8, 16], [0, 8.5], [16, 23.5]]},
            r"intervals\[0\] must not begin before video_intervals\[1\] ends",
        ),
        ({**OMNIPRO, "question_time": "soon"}, "question_time must be seconds, or minutes and seconds such as 01:05"),
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
