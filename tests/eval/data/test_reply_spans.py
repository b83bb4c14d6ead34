"""Reply spans in splits, exports and corrections."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.data.writers import OptionalField, write_samples
from stepscope.eval.runs.folder import digest_sample
from tests.support.data.strategies import BOAT

SPAN = Turn(time_s=2.0, role="assistant", text="Cut it.", end_s=4.5, related_start_s=0.5, related_end_s=3.0)
SPANNED = replace(BOAT, turns=(SPAN,))
GOLD: dict[str, Any] = {
    "video": "a.mp4",
    "question_id": "q7",
    "duration": 12.2,
    "conversation": [{"role": "user", "content": "When does it boil?", "time": 0}],
    "answer": [{"content": "Now.", "related_timespan": [3, 5], "reply_timespan": [4, 8.5]}],
}


def write(folder: Path, content: object) -> Path:
    path = folder / "split.json"
    path.write_text(json.dumps(content))
    return path


def test_a_manifest_keeps_reply_spans(tmp_path: Path) -> None:
    write_samples(tmp_path / "split.json", [SPANNED], file_format="manifest")
    assert read_samples(tmp_path / "split.json") == [SPANNED]


def test_the_digest_of_a_sample_covers_reply_spans() -> None:
    assert digest_sample(SPANNED) != digest_sample(replace(BOAT, turns=(replace(SPAN, end_s=None),)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"end_s": 2.0}, r"turns\[0\].end_s must be after time_s, 2"),
        ({"end_s": 5, "role": "user"}, r"only an assistant turn has a reply span"),
    ],
)
def test_an_invalid_span_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    write_samples(tmp_path / "split.json", [replace(BOAT, turns=(SPAN.as_instant(),))], file_format="manifest")
    content = json.loads((tmp_path / "split.json").read_text())
    content["videos"][0]["turns"][0].update(change)
    with pytest.raises(ValueError, match=reason):
        read_samples(write(tmp_path, content))


def test_a_moved_turn_keeps_the_length_of_its_span() -> None:
    correction = Correction(reviewer="r", kind="time", turn=name_turns(SPANNED.turns)[0], time_s=3.0)
    assert apply_corrections(SPANNED, [correction]).sample.turns == (
        replace(SPAN, time_s=3.0, end_s=5.5, related_start_s=1.5, related_end_s=4.0),
    )
    assert SPAN.moved(1.0).related_start_s is None, "the evidence cannot start before the video"


def test_gold_answers_are_recognised_and_read(tmp_path: Path) -> None:
    (sample,) = read_samples(write(tmp_path, [GOLD]))
    assert (sample.video_id, sample.fps, sample.num_frames) == ("q7", 2.0, 25)  # frames at 0, 0.5, ..., 12.0 s
    assert sample.video_path == tmp_path / "a.mp4"
    assert sample.turns == (
        Turn(time_s=0.0, role="user", text="When does it boil?"),
        Turn(time_s=4.0, role="assistant", text="Now.", end_s=8.5, related_start_s=3.0, related_end_s=5.0),
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"duration": None}, "duration is missing"),
        ({"answer": [{**GOLD["answer"][0], "reply_timespan": [4, 4]}]}, r"reply_timespan must end after its start"),
    ],
)
def test_an_invalid_gold_answer_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_samples(write(tmp_path, [{**GOLD, **change}]))


def test_written_gold_answers_load_again_unchanged(tmp_path: Path) -> None:
    source = tmp_path / "gold.json"
    source.write_text(json.dumps([GOLD, {**GOLD, "question_id": 8, "answer": []}]))
    split = read_samples(source)
    write_samples(tmp_path / "new.json", split, file_format="proactive-videoqa", provenance={"source": "gold.json"})
    assert read_samples(tmp_path / "new.json") == split
    first = json.loads((tmp_path / "new.json").read_text())[0]
    assert first == {**GOLD, "duration": 12.5}, "the duration is that of its whole frames"
    assert (tmp_path / "new.json.provenance.json").exists()


@pytest.mark.parametrize(
    ("change", "omit", "reason"),
    [
        ({"goal": ""}, [], "cannot hold goal and steps; name 'task' in 'omit'"),
        ({"turns": (Turn(time_s=0.0, role="update", text="S1->start"),)}, [], "cannot hold state updates"),
        ({"fps": 4.0}, ["task"], "cannot hold its fps 4.0; it would load as 2.0"),
    ],
)
def test_a_sample_that_gold_answers_cannot_hold_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], omit: list[OptionalField], reason: str
) -> None:
    sample: Sample = replace(SPANNED, **{"video_path": tmp_path / "boat.mp4", **change})
    with pytest.raises(ValueError, match=reason):
        write_samples(tmp_path / "gold.json", [sample], file_format="proactive-videoqa", omit=omit)
    assert not (tmp_path / "gold.json").exists()
