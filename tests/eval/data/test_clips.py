"""Published clips run from the one long video that they are parts of; the ids of several never collide."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.records import Step, frame_at
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.clips import Extent
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Turn
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from tests.engine.video.test_excerpts import write_numbered
from tests.support.data.batches import make_worker_config
from tests.support.data.published import CLIP, DIALOGUE, changed, frames_of, write
from tests.support.data.shared_data import shared
from tests.support.streams.batches import run_sample

START = {"start_frame_idx": 20, "end_frame_idx": 32}  # 10 s to 16 s at 2 fps: pictures 100, 105 ... 155 of the video
TURNS = [{"role": "assistant", "content": "Now the sail.", "time": 10.0}]
SHORT_CLIP: dict[str, Any] = {**CLIP, **START, "conversation": TURNS}


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_numbered(tmp_path_factory.mktemp("videos") / "v.mp4")


def test_a_published_clip_starts_at_its_first_frame_and_names_its_video(tmp_path: Path) -> None:
    records = [CLIP, {**DIALOGUE, "video_path": "a/b.mp4"}]
    records[0] = {**records[0], "start_frame_idx": float(records[0]["start_frame_idx"])}
    clip, dialogue = read_samples(write(tmp_path, records))
    assert (clip.start_s, clip.video_path) == (96.5, None)  # frame 193 at 2 fps
    assert (dialogue.start_s, dialogue.video_path) == (5.5, tmp_path / "a/b.mp4")
    assert [sample.start_s for sample in read_samples(shared("data/dst_clip.json"))] == [96.5]


def test_a_video_of_a_manifest_may_be_a_part_of_its_file(tmp_path: Path) -> None:
    video = {"video_id": "v", "video_path": "a.mp4", "fps": 2, "num_frames": 4, "goal": "", "steps": [], "turns": []}
    whole, part = read_samples(write(tmp_path, {"videos": [video, {**video, "video_id": "w", "start_s": 7.25}]}))
    assert (whole.start_s, whole.excerpt, part.start_s) == (None, None, 7.25)
    with pytest.raises(ValueError, match="start_s must be a number from 0"):
        read_samples(write(tmp_path, {"videos": [{**video, "start_s": -1}]}))


def test_the_frames_of_a_clip_are_embedded_from_its_part_of_the_video_and_kept_apart(
    tmp_path: Path, checkpoint: Checkpoint, long_video: Path, tiny_folder: Path
) -> None:
    clip, later = read_samples(
        write(tmp_path, [SHORT_CLIP, {**SHORT_CLIP, "start_frame_idx": 30, "end_frame_idx": 42, "conversation": []}]),
        videos=long_video.parent,
    )
    whole = list(encode(checkpoint, read_frames(long_video, fps=2)))
    for work in (make_worker_config(tiny_folder), make_worker_config(tiny_folder, features=tmp_path / "features")):
        for _ in range(2):
            for sample, first in ((clip, 20), (later, 30)):
                frames = tuple(SampleFeatures(checkpoint=checkpoint, folder=work.features).embed(sample))
                assert [frame.index for frame in frames] == list(range(12))
                assert [frame.time_s for frame in frames] == pytest.approx(np.arange(12) / 2, abs=1e-3)
                for frame, wanted in zip(frames, whole[first : first + 12], strict=True):
                    torch.testing.assert_close(frame.features.float(), wanted.features.float(), atol=2e-2, rtol=2e-2)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_a_video_that_is_shorter_than_its_clip_says_so(
    tmp_path: Path, checkpoint: Checkpoint, long_video: Path, tiny_folder: Path
) -> None:
    late = {**SHORT_CLIP, "conversation": [], "video_path": str(long_video)}
    beyond = {**late, "clip_idx": 1, "start_frame_idx": 193, "end_frame_idx": 200}
    partly = {**late, "clip_idx": 2, "start_frame_idx": 115, "end_frame_idx": 125}
    results = [
        run_sample(checkpoint, make_worker_config(tiny_folder), sample)
        for sample in read_samples(write(tmp_path, [beyond, partly]))
    ]
    assert results[0].record.error == (
        f"{long_video}: ends at 60.00 s, before the clip starts at 96.5 s; give the whole video of the clip"
    )
    assert results[1].record.warning == "the video ends after 5 of 10 frames"


def named(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("name", ["v_clip3", "v", "v (fps 2)"])
def test_a_folder_of_videos_has_the_file_of_a_record_by_id_uid_or_frames_file(tmp_path: Path, name: str) -> None:
    videos = named(tmp_path / "videos", f"deep/{name}.MP4", "v_clip3.txt", "other.mp4")
    path = write(tmp_path, {**CLIP, "frames_file": "data/frames/v (fps 2).arrow"})
    (sample,) = read_samples(path, videos=videos)
    assert sample.video_path == videos / f"deep/{name}.MP4"


def test_no_file_or_several_files_of_a_name_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, CLIP)
    for names, reason in (
        (["w.mp4"], r"video v: no video in .*videos is called v_clip3 or v \(ending in \.avi, .*\); rename it"),
        (["a/v.mp4", "b/v.mkv"], r"2 videos in .* are called v, such as a/v\.mp4 and b/v\.mkv; rename or remove all"),
    ):
        videos = named(tmp_path / str(len(names)) / "videos", *names)
        with pytest.raises(ValueError, match=reason):
            read_samples(path, videos=videos)
        (entry,) = read_split(path, videos=videos).entries
        assert isinstance(entry, InvalidSample)
    with pytest.raises(ValueError, match=r"none is not a folder; name the folder"):
        read_split(path, videos=tmp_path / "none")


def ids(path: Path) -> list[str]:
    found = [entry.video_id for entry in read_split(path).entries if isinstance(entry, Sample)]
    assert [sample.video_id for sample in read_samples(path)] == found
    return found


def test_clips_and_dialogues_of_one_video_have_ids_that_differ(tmp_path: Path) -> None:
    plain = {name: value for name, value in CLIP.items() if name != "clip_idx"}
    longer = {**plain, "end_frame_idx": 300}
    spoken = {**plain, "inferred_goal": "another dialogue"}
    assert ids(write(tmp_path, [plain, longer, spoken])) == ["v", "v_193-300", "v_2"]
    assert ids(write(tmp_path, [plain, spoken, {**plain, "inferred_goal": "third"}])) == ["v", "v_2", "v_3"]
    # an id that another record gives itself stays its own
    assert ids(write(tmp_path, [plain, spoken, {**plain, "video_uid": "v_2"}])) == ["v", "v_3", "v_2"]
    assert ids(write(tmp_path, [plain, CLIP])) == ["v", "v_clip3"]
    with pytest.raises(ValueError, match="two videos share the video_id v; rename one of them"):
        read_samples(write(tmp_path, [plain, longer, plain]))


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


def test_turns_that_repeat_the_state_for_the_model_are_skipped(tmp_path: Path) -> None:
    context = {"role": "DST_CONTEXT", "content": "Previous state: {'S1': 'completed'}", "time": 96.5}
    conversation = [context, {"role": "DST_CONTEXT", "content": "Without a time"}, *CLIP["conversation"]]
    assert read_samples(write(tmp_path, {**CLIP, "conversation": conversation})) == read_samples(write(tmp_path, CLIP))


def test_a_clip_with_the_necessary_fields_alone_is_read(tmp_path: Path) -> None:
    sparse: dict[str, Any] = {
        "video_uid": "v",
        "fps": 2,
        "dst": [{"id": "S1", "name": "set down the hull", "end_ts": 9.0}],
        "conversation": [
            {"role": "DST_UPDATE", "content": [], "time": 1.0},
            {"role": "DST_UPDATE", "content": [{"id": "S1", "transition": "start"}], "time": 2.0},
            {"role": "assistant", "content": "Now the sail.", "time": 4.0},
        ],
    }
    (sample,) = read_samples(write(tmp_path, sparse))
    assert (sample.goal, sample.start_s, sample.num_frames) == ("", 0.0, 19)  # the last step ends in frame 18
    assert [turn.text for turn in sample.turns] == ["S1->start", "Now the sail."]
    without_steps = {key: value for key, value in sparse.items() if key != "dst"} | {
        "inferred_goal": "build the boat",
        "end_frame_idx": 20,
        "conversation": sparse["conversation"][2:],
    }
    assert read_samples(write(tmp_path, without_steps))[0].steps == ()
