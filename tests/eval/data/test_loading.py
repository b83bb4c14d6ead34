import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.records import Step
from stepscope.eval.data.formats import SPLIT_FORMATS, find_format
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.loading import SampleWarning, read_samples
from stepscope.eval.data.vocabulary import Vocabulary, read_vocabulary
from tests.support.data.published import CLIP, DIALOGUE, MANIFEST, changed, frames_of, write
from tests.support.data.shared_data import shared

OTHER = {**CLIP, "clip_idx": 4}


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ([CLIP, OTHER], ["v_clip3", "v_clip4"]),
        (json.dumps(CLIP, indent=1), ["v_clip3"]),
        (f"{json.dumps(DIALOGUE)}\r\n\n{json.dumps(CLIP)}\n", ["v_clip0_talk_1", "v_clip3"]),
        (f"\ufeff{json.dumps(DIALOGUE)}\n\ufeff{json.dumps(CLIP)}\n\ufeff\n", ["v_clip0_talk_1", "v_clip3"]),
    ],
)
def test_the_form_is_told_by_content(tmp_path: Path, content: object, ids: list[str]) -> None:
    assert [sample.video_id for sample in read_samples(write(tmp_path, content))] == ids


def test_each_format_is_recognised_by_the_fields_that_messages_name() -> None:
    for split_format in SPLIT_FORMATS:
        record: dict[str, object] = {name: [] for name in re.findall(r'"(\w+)"', split_format.fields)}
        assert find_format(Fields(record=record)) is split_format


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (changed(CLIP, "fps", to="2"), "fps must be a number from 0.001 to 1000; got '2'"),
        (changed(CLIP, "fps", to=...), "fps is missing; it must be a number"),
        (changed(CLIP, "end_frame_idx", to=193), "end_frame_idx must be larger than start_frame_idx, 193"),
        (changed(CLIP, "conversation", 1, "time", to=...), r"conversation\[1\].time is missing"),
        (
            changed(CLIP, "conversation", 3, "content", 0, "id", to="S9"),
            r"conversation\[3\].content\[0\].id must be one of S2, S1; got 'S9'",
        ),
        ({**CLIP, "initial_dst_state": {"S1": "done"}}, "initial_dst_state.S1 must be one of not_started"),
        (changed(DIALOGUE, "metadata", to=...), "metadata is missing; it must be an object"),
        (changed(DIALOGUE, "conversation", 1, to={"role": "user", "content": "x"}), None),
    ],
)
def test_a_published_record_that_cannot_be_used_is_named(
    tmp_path: Path, record: dict[str, Any], reason: str | None
) -> None:
    if reason is None:  # a user before the first image is no error
        assert frames_of(read_samples(write(tmp_path, record))[0], "user")[0] == 0
        return
    with pytest.raises(ValueError, match=rf"data\.txt, video v: .*{reason}"):
        read_samples(write(tmp_path, record))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"{json.dumps(CLIP)}\n{json.dumps(CLIP)[:-9]}\n", "line 2: "),
        (f"{json.dumps(CLIP)}\n{json.dumps({**OTHER, 'fps': 0})}", r"data\.txt, line 2: fps must be"),
        (json.dumps([CLIP, CLIP]), "two videos share the video_id v_clip3; rename one of them"),
        ("{}", "has an unknown format; write an object with"),
    ],
)
def test_a_wrong_line_or_file_is_named(tmp_path: Path, content: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_samples(write(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "num_left", "listed"),
    [
        # frames 193..212 are 96.5 s to 106.5 s; one turn before, one after
        (
            changed(changed(CLIP, "conversation", 1, "time", to=96.4), "conversation", 2, "time", to=106.5),
            3,
            ("the time 96.4 of the assistant turn 'Now the sail.'", "the time 106.5 of the user turn", "at 96.5 s"),
        ),
        (changed(DIALOGUE, "end_frame_idx", to=16), 2, ("turn 'Done?'", "turn 'Done.'")),
        (MANIFEST, 1, ("the time 10 of the user turn 'late' lies outside the video of 10 s",)),
    ],
)
def test_turns_outside_the_video_are_an_error_or_one_warning_that_lists_them(
    tmp_path: Path, content: object, num_left: int, listed: tuple[str, ...]
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match="strict=False") as caught:
        read_samples(path)
    with pytest.warns(SampleWarning, match="left out") as warned:
        (sample,) = read_samples(path, strict=False)
    assert len(warned) == 1
    assert len(sample.turns) == num_left
    assert all(text in str(caught.value) and text in str(warned[0].message) for text in listed)


@pytest.mark.parametrize(("num_frames", "fps"), [(2**31 - 1, 2.0), (172_801, 2.0)])
def test_a_sample_of_more_than_a_day_is_refused_because_each_frame_takes_memory(
    tmp_path: Path, num_frames: int, fps: float
) -> None:
    path = tmp_path / "split.json"
    video = {"video_id": "a", "fps": fps, "num_frames": num_frames, "goal": "", "steps": [], "turns": []}
    path.write_text(json.dumps({"videos": [video]}))
    with pytest.raises(ValueError, match="video a: num_frames must give a video of at most a day"):
        read_samples(path)
    clip = {"video_uid": "a", "fps": fps, "start_frame_idx": 0, "end_frame_idx": num_frames, "conversation": []}
    path.write_text(json.dumps([clip]))
    with pytest.raises(ValueError, match="end_frame_idx must give a video of at most a day"):
        read_samples(path)
    gold = {"question_id": "a", "video": "a", "duration": 86_401, "conversation": [], "answer": []}
    path.write_text(json.dumps([gold]))
    with pytest.raises(ValueError, match="duration must give a video of at most a day"):
        read_samples(path)


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


def test_names_keep_their_order_and_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert read_vocabulary(tmp_path / "test.json") == Vocabulary()
    (tmp_path / "test.vocabulary.json").write_text('{"causes": {"decoy": "a wrong part"}, "tags": {"b": "", "a": ""}}')
    found = read_vocabulary(tmp_path / "test.json")
    assert found.traits == ("tag: b", "tag: a", "cause: decoy")
    assert found.causes["decoy"] == "a wrong part"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[", "cannot be read"),
        ('{"tags": ["dark"]}', "tags: "),
        (json.dumps({"tags": dict.fromkeys(map(str, range(61)), "")}), "tags has more than 60 names"),
    ],
)
def test_an_invalid_file_is_refused_in_one_sentence(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "test.vocabulary.json").write_text(content)
    with pytest.raises(ValueError, match=r"test\.vocabulary\.json") as refused:
        read_vocabulary(tmp_path / "test.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        ("[{}][{}]", "several values are joined here; write one list, or each on a line of its own"),
        ('[{"a": 1,\n}]', "remove the comma before it"),
        ("[1,]", "remove the comma before it"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHi\n", "these are subtitles, whose files end in .srt or .vtt"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n", "these are subtitles, whose files end in .srt or .vtt"),
    ],
)
def test_a_file_that_is_no_json_is_refused_with_the_cure(tmp_path: Path, content: str, cure: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be read as JSON or JSON lines: [^\n]+; {cure}$"):
        read_samples(write(tmp_path, content))


def test_a_key_that_a_split_has_twice_is_named_in_one_value_and_in_lines(tmp_path: Path) -> None:
    twice = json.dumps(CLIP).replace('"fps": 2', '"fps": 1, "fps": 2')
    for text in (twice, f"{twice}\n{json.dumps(CLIP)}\n", f"{json.dumps(CLIP)}\n{twice}\n"):
        (tmp_path / "data.txt").write_text(text)
        with pytest.raises(ValueError, match="an object has the key 'fps' twice"):
            read_samples(tmp_path / "data.txt")


@pytest.mark.parametrize("separator", ["\n", "", " "])
def test_records_that_extend_over_lines_are_read_as_json_lines(tmp_path: Path, separator: str) -> None:
    records = [CLIP, {**CLIP, "video_uid": "w"}]
    (tmp_path / "long.json").write_text(separator.join(json.dumps(record, indent=2) for record in records))
    assert read_samples(tmp_path / "long.json") == read_samples(write(tmp_path, records))
