"""ELAN documents: their tiers, slots and media."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from stepscope.app.exports.elan import write_eaf
from stepscope.app.exports.elan_edits import read_eaf_corrections
from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.exports.spans import TimedText, split_lanes
from stepscope.app.review_store.review import fold_actions
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Turn
from stepscope.eval.data.writers import write_samples
from tests.support.data.records import make_sample
from tests.support.data.strategies import few
from tests.support.reviews.exported import SCHEMA, annotation
from tests.support.reviews.reviewed import EVIL, reviewed_video

SHOWN_EVIL = EVIL.replace("\ud83d", "?").replace("\x07", "\u2407").replace("\0", "\u2400")


def tiers(path: Path) -> dict[str, list[tuple[int, int, str]]]:
    """Return start, end and text of each annotation by tier, of a document that is valid."""
    document = etree.parse(str(path))
    SCHEMA.assertValid(document)
    slots = {slot.get("TIME_SLOT_ID"): int(slot.get("TIME_VALUE")) for slot in document.iter("TIME_SLOT")}
    return {
        tier.get("TIER_ID"): [
            (slots[found.get("TIME_SLOT_REF1")], slots[found.get("TIME_SLOT_REF2")], found.findtext("ANNOTATION_VALUE"))
            for found in tier.iter("ALIGNABLE_ANNOTATION")
        ]
        for tier in document.iter("TIER")
    }


def test_tiers_hold_predictions_references_states_and_verdicts(tmp_path: Path) -> None:
    write_eaf(tmp_path / "a.eaf", reviewed_video())
    found = tiers(tmp_path / "a.eaf")
    assert found["model: assistant"] == [(1500, 3500, SHOWN_EVIL)]
    assert found["corrected: update"] == [(1000, 3000, "S1->start"), (3000, 5000, "S1->complete")]
    assert found["corrected: update (2)"] == [(3000, 5000, "S2->start")]
    assert found["model state: S1"] == [(0, 1000, "not_started"), (1000, 6000, "in_progress")]
    assert found["verdicts: <script>"] == [(1500, 3500, "unclear (generated)")]
    assert found["verdicts: =cmd()"] == [(1500, 3500, f"unclear [+1, {SHOWN_EVIL}]: {SHOWN_EVIL} (generated)")]
    assert [*found][:5] == [
        "corrected: assistant",
        "corrected: update",
        "corrected: update (2)",
        "corrected: user",
        "reference: assistant",
    ]


def test_the_document_names_its_video_and_where_a_clip_starts(tmp_path: Path) -> None:
    write_eaf(tmp_path / "a.eaf", reviewed_video())
    root = etree.parse(str(tmp_path / "a.eaf")).getroot()
    assert root.find("HEADER/MEDIA_DESCRIPTOR").get("MEDIA_URL") == "a%20b.mp4"
    assert "/videos/" not in (tmp_path / "a.eaf").read_text(encoding="utf-8"), "no folder of the server"
    assert root.find("HEADER/MEDIA_DESCRIPTOR").get("TIME_ORIGIN") is None
    write_eaf(tmp_path / "a.eaf", replace(reviewed_video(), start_s=96.5))
    root = etree.parse(str(tmp_path / "a.eaf")).getroot()
    assert root.find("HEADER/MEDIA_DESCRIPTOR").get("TIME_ORIGIN") == "96500"


@given(st.lists(st.integers(0, 9), max_size=12))
@few
def test_annotations_of_a_tier_never_overlap(starts: list[int]) -> None:
    spans = [
        TimedText(track="t", start_ms=start, end_ms=start + 3, text=str(number)) for number, start in enumerate(starts)
    ]
    lanes = split_lanes(spans)
    assert sorted(span.start_ms for lane in lanes for span in lane) == sorted(starts)
    assert len(lanes) == max((starts.count(start) for start in starts), default=0)
    for lane in lanes:
        ends = [span.end_ms for span in lane]
        assert all(span.start_ms < span.end_ms for span in lane)
        assert all(end <= span.start_ms for end, span in zip(ends, lane[1:], strict=False))


SAMPLE = make_sample(
    video_id="v",
    num_frames=40,
    goal="",
    turns=(
        Turn(time_s=2.0, role="assistant", text="Span.", end_s=6.0),
        Turn(time_s=8.0, role="assistant", text="Instant."),
        Turn(time_s=12.0, role="assistant", text="Cut.", end_s=16.0),
        Turn(time_s=14.0, role="assistant", text="Last."),
    ),
)
NAMES = name_turns(SAMPLE.turns)


def edited(folder: Path, change: Callable[[etree._Element], object]) -> tuple[Correction, ...]:
    path = folder / "v.eaf"
    write_eaf(path, ReviewedVideo(video_id="v", duration_s=20.0, sample=SAMPLE, review=fold_actions([])))
    document = etree.parse(str(path))
    change(document.getroot())
    document.write(str(path))
    return read_eaf_corrections(path, sample=SAMPLE, reviewer="bob")


def set_times(root: etree._Element, text: str, start_ms: int, end_ms: int) -> None:
    """Give the annotation of the corrected tier new time slots, as ELAN does when its edges are dragged."""
    found = annotation(root, text)[0].getparent()
    assert found is not None
    order = root.find("TIME_ORDER")
    assert order is not None
    for number, value in ((1, start_ms), (2, end_ms)):
        slot = f"new{number}{text}"
        etree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID=slot, TIME_VALUE=str(value))
        found.set(f"TIME_SLOT_REF{number}", slot)


@pytest.mark.parametrize(
    ("text", "edges", "expected"),
    [
        ("Span.", (2000, 7000), ("span", 2.0, 7.0)),
        ("Span.", (3000, 7000), ("time", 3.0, None)),  # moved with its length
        ("Instant.", (8000, 11000), ("span", 8.0, 11.0)),  # longer than an instant is shown
    ],
)
def test_dragged_edges_become_a_span(
    tmp_path: Path, text: str, edges: tuple[int, int], expected: tuple[str, float, float | None]
) -> None:
    assert edited(tmp_path, lambda root: None) == ()
    found = edited(tmp_path, lambda root: set_times(root, text, *edges))
    assert [(one.kind, one.time_s, one.end_s) for one in found] == [expected]


def test_a_corrected_span_is_kept_by_manifest_and_elan(tmp_path: Path) -> None:
    correction = Correction(reviewer="bob", kind="span", turn=NAMES[1], time_s=8.0, end_s=10.5)
    corrected = apply_corrections(SAMPLE, [correction])
    write_samples(tmp_path / "a.json", [corrected.sample], file_format="manifest")
    (again,) = read_samples(tmp_path / "a.json")
    assert [(turn.time_s, turn.end_s) for turn in again.turns][1] == (8.0, 10.5)
    path = tmp_path / "v.eaf"
    write_eaf(path, ReviewedVideo(video_id="v", duration_s=20.0, sample=again, review=fold_actions([])))
    assert read_eaf_corrections(path, sample=again, reviewer="bob") == ()
