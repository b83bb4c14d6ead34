import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.records import Step
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.data.writers import FILE_FORMATS, FileFormat, write_samples
from tests.support.data.shared_data import shared
from tests.support.data.strategies import BOAT, few, samples

DIALOGUE_FORMATS = [form for form in FILE_FORMATS if form != "proactive-videoqa"]  # test_reply_spans.py has that
UPDATED = replace(
    BOAT,
    turns=(Turn(time_s=0.5, role="update", text="S1->start"), *BOAT.turns[1:]),
    initial_state={"S2": "in_progress"},
)


def as_clips(split: list[Sample], form: FileFormat) -> list[Sample]:
    """Return samples as a published form gives them back: whole files become the clips of their frames from 0 s."""
    return split if form == "manifest" else [replace(sample, start_s=sample.start_s or 0.0) for sample in split]


def rewritten(split: list[Sample], form: FileFormat) -> list[Sample]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "split.json"
        write_samples(path, split, file_format=form)
        return read_samples(path)


@given(samples(), samples(fps=3.0))
@few
def test_a_split_that_is_written_as_manifest_or_dst_clips_loads_again_unchanged(one: Sample, other: Sample) -> None:
    split = [one, replace(other, video_id="w\u2028")]
    forms: tuple[FileFormat, ...] = ("manifest", "dst")
    for form in forms:
        assert rewritten(split, form) == as_clips(split, form)


@given(samples(with_updates=False), st.sampled_from([1.0, 3.0, 7.0]))
@few
def test_a_split_without_updates_that_is_written_as_dialogues_loads_again_unchanged(one: Sample, fps: float) -> None:
    times = [replace(turn, time_s=turn.time_s * one.fps / fps) for turn in one.turns]
    split = [replace(one, fps=fps, turns=tuple(times)), replace(one, video_id="w", steps=())]
    assert rewritten(split, "proassist") == as_clips(split, "proassist")


@pytest.mark.parametrize("form", DIALOGUE_FORMATS)
def test_a_clip_keeps_its_place_in_its_video_in_every_form(form: FileFormat) -> None:
    clip = replace(BOAT, start_s=96.5)
    assert rewritten([clip], form) == [clip]


@pytest.mark.parametrize("form", ["manifest", "dst"])
def test_a_split_keeps_the_writer_of_its_references_in_every_form(form: FileFormat, tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    write_samples(path, [BOAT], file_format=form, provenance={"reference_writer": "templates"})
    assert read_split(path).origin == {"reference_writer": "templates"}
    beside = tmp_path / "split.json.provenance.json"
    beside.write_text("{")
    if form == "dst":
        with pytest.raises(ValueError, match=r"split\.json\.provenance\.json cannot be read"):
            read_split(path)
        beside.unlink()
        assert read_split(path).origin == {}


@pytest.mark.parametrize("path", ["data/dst_clip.json", "data/proassist_dialogues.jsonl"])
def test_real_clips_are_written_as_they_were_read(path: str) -> None:
    split = read_samples(shared(path))
    for form in ("manifest", "dst" if path.endswith(".json") else "proassist"):
        assert rewritten(split, form) == split


def test_half_a_surrogate_pair_comes_back_as_a_question_mark(tmp_path: Path) -> None:
    odd = replace(BOAT, turns=(Turn(time_s=0.0, role="user", text="\ud83d!"),))
    write_samples(tmp_path / "odd.json", [odd], file_format="manifest")
    assert read_samples(tmp_path / "odd.json") == [replace(odd, turns=(replace(odd.turns[0], text="?!"),))]


def test_a_manifest_finds_its_videos_again_wherever_it_lies(tmp_path: Path) -> None:
    inside = replace(BOAT, video_path=tmp_path / "split" / "boat.mp4")
    outside = replace(BOAT, video_id="other", video_path=tmp_path / "other.mp4")
    write_samples(tmp_path / "split" / "split.json", [inside, outside], file_format="manifest")
    assert read_samples(tmp_path / "split" / "split.json") == [inside, outside]
    assert '"boat.mp4"' in (tmp_path / "split" / "split.json").read_text()


@pytest.mark.parametrize(
    ("sample", "form", "reason"),
    [
        (replace(BOAT, video_path=Path("a.mp4")), "dst", "dst format cannot hold the video's file"),
        (UPDATED, "proassist", "proassist format cannot hold state updates"),
        (replace(BOAT, turns=(replace(BOAT.turns[0], time_s=0.7),)), "proassist", "'Set down the hull.' at 0.7 s"),
        (replace(BOAT, steps=(Step(id="S2", name="x"),)), "proassist", "cannot hold its steps .*S2"),
        (replace(BOAT, turns=(replace(BOAT.turns[0], time_s=6.0),)), "manifest", "at 6 s is outside the video"),
        (replace(BOAT, turns=BOAT.turns[::-1]), "manifest", "must be in order of time"),
    ],
)
def test_what_a_form_cannot_hold_is_refused_by_name_and_nothing_is_written(
    tmp_path: Path, sample: Sample, form: FileFormat, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"^video boat.*{reason}"):
        write_samples(tmp_path / "split.json", [sample], file_format=form)
    assert not list(tmp_path.iterdir())


def test_a_split_without_videos_or_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one video"):
        write_samples(tmp_path / "split.json", [], file_format="dst")
    with pytest.raises(ValueError, match="two videos share the video_id boat"):
        write_samples(tmp_path / "split.json", [BOAT, BOAT], file_format="dst")


def test_what_is_named_is_left_out_knowingly(tmp_path: Path) -> None:
    rich = replace(UPDATED, video_path=Path("a.mp4"), turns=(*UPDATED.turns[:3], replace(BOAT.turns[3], cause="drop")))
    write_samples(tmp_path / "a.json", [rich], file_format="dst", omit=("cause", "video_path"))
    assert read_samples(tmp_path / "a.json") == as_clips([UPDATED], "dst")
    write_samples(tmp_path / "b.json", [rich], file_format="proassist", omit=("cause", "video_path", "updates"))
    assert read_samples(tmp_path / "b.json") == as_clips([replace(BOAT, turns=BOAT.turns[1:])], "proassist")


def test_the_order_of_a_recipe_is_kept_in_the_manifest(tmp_path: Path) -> None:
    steps = tuple(Step(id=f"S{number}", name=f"part {number}") for number in (1, 2, 3))
    after = {"S3": ("S1", "S2")}
    sample = Sample(video_id="v", fps=2.0, num_frames=9, steps=steps, after=after)
    write_samples(path := tmp_path / "split.json", [sample], file_format="manifest")
    assert [read.after for read in read_samples(path)] == [after]
    for wrong, reason in (([["S9"]], "ids of steps"), ([["S3"], [], ["S1"]], "has a cycle: S1 -> S3 -> S1")):
        listed = [{"id": f"S{n}", "name": "a", "after": wrong[n - 1] if n <= len(wrong) else []} for n in (1, 2, 3)]
        content = {"videos": [{"video_id": "v", "fps": 2.0, "num_frames": 9, "goal": "", "steps": listed, "turns": []}]}
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=reason):
            read_samples(path)
