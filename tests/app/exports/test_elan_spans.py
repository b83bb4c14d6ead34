"""Reply spans in ELAN: their ends are edited there, and come back as corrections."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree

from stepscope.app.exports.elan import write_eaf
from stepscope.app.exports.elan_edits import read_eaf_corrections
from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.reviews.review import fold_actions
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Turn
from stepscope.eval.data.writers import write_samples
from tests.support.data.records import make_sample
from tests.support.reviews.exported import annotation

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


def test_spans_and_instants_that_were_not_edited_give_no_correction(tmp_path: Path) -> None:
    assert edited(tmp_path, lambda root: None) == ()


@pytest.mark.parametrize(
    ("text", "edges", "expected"),
    [
        ("Span.", (2000, 7000), ("span", 2.0, 7.0)),
        ("Span.", (3000, 6000), ("span", 3.0, 6.0)),
        ("Span.", (3000, 7000), ("time", 3.0, None)),  # moved with its length
        ("Instant.", (8000, 11000), ("span", 8.0, 11.0)),  # longer than an instant is shown
        ("Instant.", (8000, 9000), None),
    ],
)
def test_dragged_edges_become_a_span(
    tmp_path: Path, text: str, edges: tuple[int, int], expected: tuple[str, float, float | None] | None
) -> None:
    found = edited(tmp_path, lambda root: set_times(root, text, *edges))
    assert [(one.kind, one.time_s, one.end_s) for one in found] == ([] if expected is None else [expected])


def test_a_corrected_span_is_kept_by_manifest_and_elan(tmp_path: Path) -> None:
    correction = Correction(reviewer="bob", kind="span", turn=NAMES[1], time_s=8.0, end_s=10.5)
    corrected = apply_corrections(SAMPLE, [correction])
    write_samples(tmp_path / "a.json", [corrected.sample], file_format="manifest")
    (again,) = read_samples(tmp_path / "a.json")
    assert [(turn.time_s, turn.end_s) for turn in again.turns][1] == (8.0, 10.5)
    path = tmp_path / "v.eaf"
    write_eaf(path, ReviewedVideo(video_id="v", duration_s=20.0, sample=again, review=fold_actions([])))
    assert read_eaf_corrections(path, sample=again, reviewer="bob") == ()
