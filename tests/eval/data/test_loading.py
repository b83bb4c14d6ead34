import copy
import json
import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.dialogue import apply_update, initial_state
from engine.records import Step, frame_at
from eval.data.clips import Extent
from eval.data.loading import SampleWarning, read_samples
from eval.data.samples import Sample, Turn
from tests.support.shared_data import shared

CLIP: dict[str, Any] = {
    "video_uid": "v",
    "clip_idx": 3,
    "inferred_goal": "build the boat",
    "fps": 2,
    "start_frame_idx": 193,
    "end_frame_idx": 213,  # 96.5 s to 106.5 s
    "dst": [
        {"type": "step", "id": "S2", "name": "hang the sail", "start_ts": 99.0, "end_ts": 106.0},
        {"type": "step", "id": "S1", "name": "set down the hull", "start_ts": 97.2, "end_ts": 99.0},
    ],
    "conversation": [
        {"role": "system", "content": "Current step states - Step S2: completed, Step S1: completed"},
        {"role": "assistant", "content": "Now the sail.", "time": 99.0, "start_frame": 7},
        {"role": "user", "content": "What now?", "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "complete"}], "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S2", "transition": "start"}], "time": 99.0},
        {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "start"}], "time": 97.2},
    ],
}
DIALOGUE: dict[str, Any] = {
    "video_uid": "v",
    "clip_idx": 0,
    "fps": 2,
    "start_frame_idx": 11,
    "end_frame_idx": 21,
    "metadata": {
        "user_id": "talk_1",
        "task_goal": "make tea",
        "knowledge": "Making tea\n1. Boil water\n2) Pour\n it in",
    },
    "conversation": [
        {"role": "system", "content": "You help."},
        {"role": "frames", "start": 11, "end": 15},
        {"role": "user", "content": "Hello", "time": 7.8},
        {"role": "frames", "start": 15, "end": 16},
        {"role": "assistant", "content": "Boil water.", "time": 7.9},
        {"role": "frames", "start": 16, "end": 21},
        {"role": "user", "content": "Done?", "time": 10.4},
        {"role": "assistant", "content": "Done.", "time": 10.5},
    ],
}


MANIFEST: dict[str, Any] = {
    "videos": [
        {
            "video_id": "v",
            "fps": 2,
            "num_frames": 20,
            "goal": "x",
            "steps": [{"id": "S1", "name": "x"}],
            "initial_state": {"S1": "completed"},
            "turns": [{"time_s": time_s, "role": "user", "text": text} for time_s, text in ((9.9, "in"), (10, "late"))],
        }
    ]
}


def write(folder: Path, content: object) -> Path:
    (folder / "data.txt").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "data.txt"


def changed(record: dict[str, Any], *path: str | int, to: object) -> dict[str, Any]:
    """Return a copy in which one place holds another value; ... removes it."""
    record = copy.deepcopy(record)
    place: Any = record
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return record


def frames_of(sample: Sample, role: str) -> list[int]:
    return [math.floor(turn.time_s * sample.fps) for turn in sample.turns if turn.role == role]


def test_the_real_dst_clip_keeps_every_turn_at_its_time() -> None:
    path = shared("data/dst_clip.json")
    (sample,) = read_samples(path)
    stored = [turn for turn in json.loads(path.read_text())["conversation"] if turn["role"] != "system"]
    assert [step.id for step in sample.steps] == ["S1", "S2", "S3", "S4", "S5", "S6"]
    assert [len(frames_of(sample, role)) for role in ("update", "assistant", "user")] == [12, 8, 1]
    # 97.2 s: frame floor(194.4) = 194 of the video, 194 - 193 = 1 of the clip; 225.2 s: floor(450.4) - 193 = 257
    assert frames_of(sample, "update") == [1, 20, 20, 111, 111, 177, 177, 202, 202, 231, 231, 257]
    assert (sample.num_frames, sample.fps, sample.goal[:10]) == (451 - 193, 2.0, "Assembling")
    assert [turn.time_s for turn in sample.turns] == pytest.approx([turn["time"] - 96.5 for turn in stored])
    assert sample.turns[0] == Turn(time_s=0.7, role="update", text="S1->start")
    state = initial_state(sample.steps, sample.initial_state)
    assert set(state.values()) == {"not_started"}
    for update in (turn.text for turn in sample.turns if turn.role == "update"):
        change = apply_update(state, update)
        assert change.legality == "legal"
        state = dict(change.state)
    assert set(state.values()) == {"completed"}


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


def test_turns_of_a_dst_clip_are_ordered_and_relative_to_the_clip(tmp_path: Path) -> None:
    (sample,) = read_samples(write(tmp_path, CLIP))
    assert [(turn.time_s, turn.role, turn.text) for turn in sample.turns] == [
        (0.7, "update", "S1->start"),
        (2.5, "update", "S1->complete"),
        (2.5, "update", "S2->start"),
        (2.5, "user", "What now?"),
        (2.5, "assistant", "Now the sail."),
    ]
    assert (sample.video_id, sample.video_path, sample.num_frames) == ("v_clip3", None, 20)
    assert sample.steps == (Step(id="S2", name="hang the sail"), Step(id="S1", name="set down the hull"))


def test_several_updates_of_one_dst_turn_are_all_kept(tmp_path: Path) -> None:
    both = [{"id": "S1", "transition": "complete"}, {"id": "S2", "transition": "start"}]
    (sample,) = read_samples(write(tmp_path, changed(CLIP, "conversation", 3, "content", to=both)))
    assert [turn.text for turn in sample.turns[1:4]] == ["S1->complete", "S2->start", "S2->start"]


def late_clip(**fields: object) -> dict[str, Any]:
    """Return a clip of three steps whose dialogue begins in the middle of the task."""
    steps = [{"id": f"S{number}", "name": "x"} for number in (1, 2, 3)]
    turns = [
        {"role": "assistant", "content": "Go on.", "time": 103.0, "dst_state": {"S2": "completed", "S1": "completed"}},
        {"role": "DST_UPDATE", "content": [{"id": "S2", "transition": "complete"}], "time": 102.0},
    ]
    return {**CLIP, "dst": steps, "conversation": turns, **fields}


@pytest.mark.parametrize(
    ("clip", "states"),
    [
        # S1 is first named at 103 s; S2 is completed at 102 s, so it was in progress before; nothing tells S3
        (late_clip(), {"S1": "completed", "S2": "in_progress"}),
        (late_clip(initial_dst_state={"S3": "in_progress"}), {"S3": "in_progress"}),
        (late_clip(metadata={"initial_dst_state": {"S1": "completed"}}), {"S1": "completed"}),
        # in a DST_UPDATE turn dst_state is the state before the update: S2 completes what had not started
        (
            changed(late_clip(), "conversation", 1, "dst_state", to={"S2": "not_started"}),
            {"S1": "completed", "S2": "not_started"},
        ),
    ],
)
def test_the_state_at_the_start_is_given_or_the_earliest_that_is_told(
    tmp_path: Path, clip: dict[str, Any], states: dict[str, str]
) -> None:
    assert read_samples(write(tmp_path, clip))[0].initial_state == states


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


def test_the_frame_of_a_published_turn_is_the_one_that_rounding_does_not_move(tmp_path: Path) -> None:
    spoken = {"role": "assistant", "content": "Now the sail.", "time": 4.1}  # 4.1 * 30 is 122.999... in floating point
    clip = {**CLIP, "fps": 30, "start_frame_idx": 100, "end_frame_idx": 200, "conversation": [spoken]}
    (sample,) = read_samples(write(tmp_path, clip))
    assert [frame_at(turn.time_s, 30.0) for turn in sample.turns] == [123 - 100]


OTHER = {**CLIP, "clip_idx": 4}


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (CLIP, ["v_clip3"]),
        ([CLIP, OTHER], ["v_clip3", "v_clip4"]),
        (json.dumps(CLIP, indent=1), ["v_clip3"]),
        (json.dumps(CLIP) + "\n", ["v_clip3"]),
        (f"{json.dumps(DIALOGUE)}\r\n\n{json.dumps(CLIP)}\n", ["v_clip0_talk_1", "v_clip3"]),
        (  # only a newline ends a line: U+2028 stands inside a text
            json.dumps({**DIALOGUE, "video_uid": "a\u2028b"}, ensure_ascii=False) + "\n" + json.dumps(CLIP),
            ["a\u2028b_clip0_talk_1", "v_clip3"],
        ),
    ],
)
def test_the_form_is_told_by_content(tmp_path: Path, content: object, ids: list[str]) -> None:
    assert [sample.video_id for sample in read_samples(write(tmp_path, content))] == ids


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (changed(CLIP, "fps", to="2"), "fps must be a number from 0.001 to 1000; got '2'"),
        (changed(CLIP, "fps", to=...), "fps is missing; it must be a number"),
        (changed(CLIP, "end_frame_idx", to=193), "end_frame_idx must be larger than start_frame_idx, 193"),
        (changed(CLIP, "start_frame_idx", to=-1), "start_frame_idx must be a whole number"),
        (changed(CLIP, "inferred_goal", to=None), "inferred_goal is missing"),
        (changed(CLIP, "dst", to=...), "dst is missing; it must be a list of objects"),
        (changed(CLIP, "dst", 1, "id", to="S2"), "step ids must differ"),
        (changed(CLIP, "dst", 1, "id", to="S 1"), r"dst\[1\].id must be one word"),
        (changed(CLIP, "dst", 1, "type", to="action"), r"dst\[1\].type must be one of step"),
        (changed(CLIP, "conversation", 1, "time", to=...), r"conversation\[1\].time is missing"),
        (changed(CLIP, "conversation", 1, "time", to=math.nan), r"conversation\[1\].time must be a number"),
        (changed(CLIP, "conversation", 1, "content", to=" "), r"conversation\[1\].content must be text, not blank"),
        (changed(CLIP, "conversation", 2, "role", to="boss"), r"conversation\[2\].role must be one of DST_UPDATE"),
        (changed(CLIP, "conversation", 3, "content", to=[]), r"conversation\[3\].content must hold at least one"),
        (
            changed(CLIP, "conversation", 3, "content", 0, "id", to="S9"),
            r"conversation\[3\].content\[0\].id must be one of S2, S1; got 'S9'",
        ),
        (
            changed(CLIP, "conversation", 3, "content", 0, "transition", to="end"),
            r"content\[0\].transition must be one of start, complete; got 'end'",
        ),
        ({**CLIP, "initial_dst_state": {"S9": "completed"}}, "initial_dst_state must name steps of dst only"),
        ({**CLIP, "initial_dst_state": {"S1": "done"}}, "initial_dst_state.S1 must be one of not_started"),
        (changed(DIALOGUE, "metadata", to=...), "metadata is missing; it must be an object"),
        (changed(DIALOGUE, "metadata", "task_goal", to=...), "metadata.task_goal is missing"),
        (changed(DIALOGUE, "metadata", "knowledge", to="Tea"), "metadata.knowledge must be a recipe numbered"),
        (changed(DIALOGUE, "metadata", "knowledge", to="1. a\n3. b"), "metadata.knowledge must be a recipe numbered"),
        (changed(DIALOGUE, "metadata", "knowledge", to="1. a\n1. b"), "must number each step once, not 1 twice"),
        (changed(DIALOGUE, "conversation", 1, to={"role": "user", "content": "x"}), None),
        (changed(DIALOGUE, "conversation", 1, to={"role": "assistant", "content": "x"}), "preceded by a frames turn"),
        (changed(DIALOGUE, "conversation", 3, "start", to=14), r"conversation\[3\].start must not be before frame 15"),
        (changed(DIALOGUE, "conversation", 3, "end", to=15), r"conversation\[3\].end must be larger than start, 15"),
        (changed(DIALOGUE, "conversation", 3, "role", to="DST_UPDATE"), r"conversation\[3\].role must be one of"),
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
        (f"{json.dumps(CLIP)}\n\n[]\n", r"data\.txt, line 3: a record must be a JSON object"),
        (f"{json.dumps(CLIP)}\n{json.dumps({**OTHER, 'fps': 0})}", r"data\.txt, line 2: fps must be"),
        (json.dumps([CLIP, 7]), r"data\.txt, video number 1: a record must be a JSON object; write an object with"),
        (json.dumps([CLIP, CLIP]), "two videos share the video_id v_clip3; rename one of them"),
        (json.dumps(changed(MANIFEST, "videos", 0, "initial_state", to=[1])), "initial_state must be an object"),
        ("{}", "has an unknown format; write an object with"),
        ("[]", "is an empty list"),
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


@example(fps=49.0, start_frame=0, frame=1, part=0.0)  # 1 / 49 * 49 = 0.9999999999999999
@example(fps=30.0, start_frame=0, frame=123, part=0.0)  # 4.1 * 30 = 122.99999999999999
@given(
    fps=st.floats(0.001, 1000),
    start_frame=st.integers(0, 2**31),
    frame=st.integers(0, 10**7),
    part=st.floats(0, 1, exclude_max=True),
)
def test_the_relative_time_of_a_turn_names_exactly_its_frame(
    fps: float, start_frame: int, frame: int, part: float
) -> None:
    extent = Extent(video_id="v", fps=fps, start_frame=start_frame, num_frames=1)
    time_s = (start_frame + frame + part) / fps
    assert frame_at(extent.clip_time_s(time_s, frame=start_frame + frame), fps) == frame


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["", "S1", "user", "1. a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "time", "id", "S1", "videos", "dst"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: object) -> list[tuple[str | int, ...]]:
    """Return the way to each place inside a JSON value."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(key, *rest) for key, part in inner for rest in [(), *places(part)]]


def read_or_refuse(path: Path, *, strict: bool) -> None:
    """Read samples that keep their promises, or see one error that names the file."""
    samples, reason = [], None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SampleWarning)
            samples = read_samples(path, strict=strict)
    except ValueError as error:
        reason = str(error)
    assert reason is None or ("data.txt" in reason and len(reason) < 20_000)
    for sample in samples:
        initial_state(sample.steps, sample.initial_state)
        assert all(0 <= math.floor(turn.time_s * sample.fps) < sample.num_frames for turn in sample.turns)
        assert [turn.time_s for turn in sample.turns] == sorted(turn.time_s for turn in sample.turns)


SOURCES: dict[str, Callable[[], dict[str, Any]]] = {
    "drawn clip": lambda: CLIP,
    "drawn dialogue": lambda: DIALOGUE,
    "manifest": lambda: MANIFEST,
    "real clip": lambda: dict(json.loads(shared("data/dst_clip.json").read_text())),
    "real dialogue": lambda: dict(json.loads(shared("data/proassist_dialogues.jsonl").read_text().splitlines()[1])),
}


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), strict=st.booleans())
def test_a_mutated_record_gives_samples_or_one_clear_error(
    tmp_path: Path, source: str, data: st.DataObject, strict: bool
) -> None:
    record = SOURCES[source]()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(record)))
        record = changed(record, *place, to=data.draw(anything | st.just(...)))
        if not record:
            break
    read_or_refuse(write(tmp_path, record), strict=strict)
    read_or_refuse(write(tmp_path, f"{json.dumps(record)}\n{json.dumps(CLIP)}"), strict=strict)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=anything | st.text(max_size=20).filter(lambda text: text.isascii()))
def test_any_content_gives_samples_or_one_clear_error(tmp_path: Path, content: object) -> None:
    read_or_refuse(write(tmp_path, content), strict=True)


def test_a_huge_wrong_value_is_cut_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fps must be") as caught:
        read_samples(write(tmp_path, {**CLIP, "fps": "x" * 100_000}))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("field", ["fps", "dst", "conversation", "video_uid", "initial_dst_state", "metadata"])
def test_deeply_nested_json_is_one_clear_error(tmp_path: Path, field: str) -> None:
    for depth in (500, 900, 100_000):
        content = json.dumps({**CLIP, field: "DEEP"}).replace('"DEEP"', "[" * depth + "]" * depth)
        with pytest.raises(ValueError, match=r"data\.txt"):
            read_samples(write(tmp_path, content))
