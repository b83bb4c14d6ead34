"""Edited ELAN documents become corrections."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from lxml import etree

from stepscope.app.exports.elan import write_eaf
from stepscope.app.exports.elan_edits import MissingTierError, read_eaf_corrections
from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.review_store.review import fold_actions
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, TurnName
from stepscope.eval.data.samples import Sample, Turn, turn_order
from tests.support.data.strategies import few, samples
from tests.support.reviews.exported import SCHEMA, annotation
from tests.support.reviews.reviewed import NAMES, SAMPLE, reviewed_video


def edit(path: Path, change: Callable[[etree._Element], object]) -> None:
    document = etree.parse(str(path))
    change(document.getroot())
    document.write(str(path))


def edited(
    folder: Path, change: Callable[[etree._Element], object], *before: Correction, allow_deletions: bool = False
) -> tuple[Correction, ...]:
    write_eaf(folder / "a.eaf", reviewed_video(*before))
    edit(folder / "a.eaf", change)
    return read_eaf_corrections(
        folder / "a.eaf", sample=SAMPLE, corrections=before, reviewer="bob", allow_deletions=allow_deletions
    )


def test_what_was_not_edited_gives_no_correction(tmp_path: Path) -> None:
    assert edited(tmp_path, lambda root: None) == ()
    moved = Correction(reviewer="ann", kind="time", turn=NAMES[0], time_s=1 / 3)
    assert edited(tmp_path, lambda root: None, moved) == ()
    spaced = Correction(reviewer="ann", kind="text", turn=NAMES[0], text="S2 -> start")

    def space(root: etree._Element) -> None:
        annotation(root, "S2->start")[0].text = " S2 -> start "

    assert edited(tmp_path, space, spaced) == (), "only an update is written without spaces"


def test_a_reworded_annotation_is_a_new_text_or_update(tmp_path: Path) -> None:
    def reword(root: etree._Element) -> None:
        annotation(root, "Set down the hull.")[0].text = "Hull first."
        annotation(root, "S2->start")[0].text = "S2->complete"

    assert edited(tmp_path, reword) == (
        Correction(reviewer="bob", kind="update", turn=NAMES[3], text="S2->complete"),
        Correction(reviewer="bob", kind="text", turn=NAMES[0], text="Hull first."),
    )


def test_a_dragged_annotation_is_a_new_time_and_its_end_means_nothing(tmp_path: Path) -> None:
    def drag(root: etree._Element) -> None:
        slots = {slot.get("TIME_SLOT_ID"): slot for slot in root.iter("TIME_SLOT")}
        slots[annotation(root, "S1->start").get("TIME_SLOT_REF1")].set("TIME_VALUE", "1250")
        slots[annotation(root, "S1->complete").get("TIME_SLOT_REF2")].set("TIME_VALUE", "4000")

    assert edited(tmp_path, drag) == (Correction(reviewer="bob", kind="time", turn=NAMES[1], time_s=1.25),)


def test_deleted_and_added_annotations_are_found_whatever_their_numbers(tmp_path: Path) -> None:
    def change(root: etree._Element) -> None:
        gone = annotation(root, "S1->start").getparent()
        gone.getparent().remove(gone)
        new = annotation(root, "Set down the hull.")
        new[0].text = "Something else."
        root.find("TIME_ORDER").append(etree.Element("TIME_SLOT", TIME_SLOT_ID="ts900", TIME_VALUE="5501"))
        new.set("TIME_SLOT_REF1", "ts900")
        for number, found in enumerate(root.iter("ALIGNABLE_ANNOTATION")):
            found.set("ANNOTATION_ID", f"a{1000 - number}")

    added = TurnName(role="assistant", time_s=5.501, text="Something else.")
    assert edited(tmp_path, change) == (
        Correction(reviewer="bob", kind="delete", turn=NAMES[1]),
        Correction(reviewer="bob", kind="delete", turn=NAMES[0]),
        Correction(reviewer="bob", kind="add", turn=added),
    )


@given(samples(fps=3.0), samples(fps=3.0))
@few
def test_any_edit_comes_back_as_corrections_that_make_it(source: Sample, wanted: Sample) -> None:
    """Write one dialogue, read it against another: the corrections must turn the other into the one."""
    texts = {turn.text for sample in (source, wanted) for turn in sample.turns}
    if any(text != text.strip() or not text.isprintable() for text in texts):
        texts_of = {text: f"{number}{text!a}" for number, text in enumerate(sorted(texts))}
        source, wanted = (
            replace(
                sample,
                turns=tuple(
                    turn if turn.role == "update" else replace(turn, text=texts_of[turn.text]) for turn in sample.turns
                ),
            )
            for sample in (source, wanted)
        )
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.eaf")
        video = ReviewedVideo(video_id="v", duration_s=4.0, steps=wanted.steps, sample=wanted, review=fold_actions([]))
        write_eaf(path, video)
        SCHEMA.assertValid(etree.parse(str(path)))
        corrections = read_eaf_corrections(path, sample=source, reviewer="bob", allow_deletions=True)
        again = read_eaf_corrections(path, sample=source, corrections=corrections, reviewer="bob")
    result = apply_corrections(source, corrections)
    assert (result.conflicts, result.unusable, again) == ((), (), ())

    def order(turn: Turn) -> tuple[tuple[float, int], str]:
        return turn_order(turn), turn.text

    assert sorted(result.sample.turns, key=order) == sorted(wanted.turns, key=order)


def test_a_tier_that_is_renamed_is_refused_unless_deletions_are_allowed(tmp_path: Path) -> None:
    def change(root: etree._Element) -> None:
        root.find("TIER[@TIER_ID='corrected: assistant']").set("TIER_ID", "Assistant")

    with pytest.raises(MissingTierError, match="has no tier 'corrected: assistant'; the import would delete 1 turn;"):
        edited(tmp_path, change)
    (found,) = edited(tmp_path, change, allow_deletions=True)
    assert found.kind == "delete"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda root: setattr(annotation(root, "S1->start")[0], "text", "S9->start"),
            "update annotation 'S9->start': an",
        ),
        (
            lambda root: [slot.set("TIME_VALUE", "6000") for slot in root.iter("TIME_SLOT")],
            "a time must be within the video, from 0 to below 6 s; got 6.0",
        ),
    ],
)
def test_an_annotation_that_can_be_no_turn_is_named(
    tmp_path: Path, change: Callable[[etree._Element], object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        edited(tmp_path, change)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<ANNOTATION_DOCUMENT>", "cannot be read as an ELAN document"),
        ("<a>" * 3_000_000, "is larger than 8 MiB"),
        (
            '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><ANNOTATION_DOCUMENT>&x;</ANNOTATION_DOCUMENT>',
            "has a document type declaration; annotation programs write none",
        ),
    ],
)
def test_a_file_that_is_no_elan_document_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "a.eaf").write_text(content)
    with pytest.raises(ValueError, match=reason):
        read_eaf_corrections(tmp_path / "a.eaf", sample=SAMPLE, reviewer="bob")


def test_a_media_offset_of_elan_changes_no_turn(tmp_path: Path) -> None:
    offset_ms = -500

    def shift(root: etree._Element) -> None:
        media = root.find("HEADER/MEDIA_DESCRIPTOR")
        if media is None:
            media = etree.SubElement(root.find("HEADER"), "MEDIA_DESCRIPTOR")
        media.set("TIME_ORIGIN", str(int(media.get("TIME_ORIGIN", "0")) + offset_ms))
        for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
            slot.set("TIME_VALUE", str(max(0, int(slot.get("TIME_VALUE")) - offset_ms)))

    assert edited(tmp_path, shift) == ()


@pytest.mark.parametrize(
    "linked",
    [
        {"helmet.mp4": "3000", "boat.mp4": "0"},
        {"helmet.mp4": "3000", "boat.mov": "0"},
        {"D:\\\\rec\\\\helmet.mp4": "3000", "D:\\\\rec\\\\boat.mp4": "0"},
        {"boat.wav": "3000", "file:///D:/rec/my/boat.mp4": "0"},
    ],
)
def test_of_several_media_the_offset_is_that_of_the_video(tmp_path: Path, linked: dict[str, str]) -> None:
    assert read_with_media(tmp_path, linked) == ()


def read_with_media(folder: Path, linked: dict[str, str]) -> tuple[Correction, ...]:
    sample = replace(SAMPLE, video_path=Path("boat.mp4"))

    def link(root: etree._Element) -> None:
        header = root.find("HEADER")
        for medium in header.findall("MEDIA_DESCRIPTOR"):
            header.remove(medium)
        for number, (url, origin) in enumerate(linked.items()):
            medium = etree.Element("MEDIA_DESCRIPTOR", MEDIA_URL=url, MIME_TYPE="video/mp4", TIME_ORIGIN=origin)
            header.insert(number, medium)

    write_eaf(folder / "a.eaf", reviewed_video())
    edit(folder / "a.eaf", link)
    return read_eaf_corrections(folder / "a.eaf", sample=sample, reviewer="bob")


def test_media_with_different_offsets_of_which_none_is_the_video_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"2 media with different offsets; link boat\.mp4 alone"):
        read_with_media(tmp_path, {"helmet.mp4": "3000", "desk.mp4": "0"})
    assert read_with_media(tmp_path, {"helmet.mp4": "0", "desk.mp4": "0"}) == ()


@pytest.mark.parametrize("units", ["PAL-frames", "NTSC-frames", "seconds"])
def test_a_document_in_other_units_than_milliseconds_is_refused(tmp_path: Path, units: str) -> None:
    with pytest.raises(ValueError, match=f"times in '{units}'; save it with TIME_UNITS milliseconds"):
        edited(tmp_path, lambda root: root.find("HEADER").set("TIME_UNITS", units))


@pytest.mark.parametrize("time", ["9" * 5000, "\u0661"])
def test_a_time_that_is_no_number_of_milliseconds_is_refused_in_one_sentence(tmp_path: Path, time: str) -> None:
    def change(root: etree._Element) -> None:
        for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
            slot.set("TIME_VALUE", time)

    with pytest.raises(ValueError, match=r"a\.eaf.* (no number of|no start time in) milliseconds") as caught:
        edited(tmp_path, change)
    assert len(str(caught.value)) < 400
