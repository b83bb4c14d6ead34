"""Edited ELAN documents become corrections."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from stepscope.app.exports.elan import write_eaf
from stepscope.app.exports.elan_edits import MissingTierError, _exported_ends, match_nearest, read_eaf_corrections
from stepscope.app.exports.rows import ReviewedVideo
from stepscope.app.reviews.review import fold_actions
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


def test_the_tier_of_one_of_many_turns_at_a_time_is_found_without_a_search() -> None:
    turns = [
        Turn(time_s=float(number // 3000), role="assistant", text=str(number), end_s=5.0) for number in range(6000)
    ]
    corrected = apply_corrections(replace(SAMPLE, turns=tuple(turns), num_frames=100), ()).turns
    began = time.process_time()
    ends = _exported_ends(corrected)
    assert time.process_time() - began < 2  # 0.02 s; a search through all tiers takes 10 s
    assert ends == [1000] * 3000 + [5000] * 3000  # a span ends where the next one of its tier begins


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


def test_tiers_that_are_only_to_be_looked_at_change_nothing(tmp_path: Path) -> None:
    def change(root: etree._Element) -> None:
        annotation(root, "S1->start", "model: ")[0].text = "S9->start"
        annotation(root, "S1->start", "reference: ")[0].text = "S9->start"

    assert edited(tmp_path, change) == ()


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


def test_a_turn_that_was_added_before_is_corrected_under_its_name(tmp_path: Path) -> None:
    name = TurnName(role="assistant", time_s=2.0, text="New.")
    added = Correction(reviewer="ann", kind="add", turn=name)

    def reword(root: etree._Element) -> None:
        annotation(root, "New.")[0].text = "Newer."

    assert edited(tmp_path, reword, added) == (Correction(reviewer="bob", kind="text", turn=name, text="Newer."),)


def test_a_turn_like_one_that_was_moved_away_gets_a_number_of_its_own(tmp_path: Path) -> None:
    moved = Correction(reviewer="ann", kind="time", turn=NAMES[0], time_s=2.0)

    def add(root: etree._Element) -> None:
        (tier,) = (tier for tier in root.iter("TIER") if tier.get("TIER_ID") == "corrected: user")
        tier.set("TIER_ID", "corrected: assistant (2)")
        value = tier.find("ANNOTATION/ALIGNABLE_ANNOTATION/ANNOTATION_VALUE")
        value.text = "Set down the hull."
        slot = value.getparent().get("TIME_SLOT_REF1")
        next(found for found in root.iter("TIME_SLOT") if found.get("TIME_SLOT_ID") == slot).set("TIME_VALUE", "0")

    found = edited(tmp_path, add, moved, allow_deletions=True)
    assert [(correction.kind, correction.turn) for correction in found] == [
        ("delete", NAMES[4]),
        ("add", replace(NAMES[0], number=1)),
        ("span", replace(NAMES[0], number=1)),  # it is longer than an instant
    ]
    texts = [turn.text for turn in apply_corrections(SAMPLE, [moved, *found]).sample.turns]
    assert texts.count("Set down the hull.") == 2


@pytest.mark.parametrize("tier", ["corrected: assistant", "corrected: update (2)"])
@pytest.mark.parametrize("name", [None, "Assistant"])
def test_a_tier_that_is_missing_or_renamed_is_refused_unless_deletions_are_allowed(
    tmp_path: Path, tier: str, name: str | None
) -> None:
    def change(root: etree._Element) -> None:
        found = root.find(f"TIER[@TIER_ID='{tier}']")
        found.getparent().remove(found) if name is None else found.set("TIER_ID", name)

    with pytest.raises(MissingTierError, match=rf"has no tier '{re.escape(tier)}'; the import would delete 1 turn;"):
        edited(tmp_path, change)
    (found,) = edited(tmp_path, change, allow_deletions=True)
    assert found.kind == "delete"


def test_a_tier_may_go_when_its_annotations_were_moved_to_another(tmp_path: Path) -> None:
    def change(root: etree._Element) -> None:
        first, second = (root.find(f"TIER[@TIER_ID='corrected: update{lane}']") for lane in ("", " (2)"))
        first.extend(list(second))
        root.remove(second)

    assert edited(tmp_path, change) == ()


def test_a_tier_whose_annotations_were_deleted_one_by_one_deletes_them(tmp_path: Path) -> None:
    def change(root: etree._Element) -> None:
        tier = root.find("TIER[@TIER_ID='corrected: assistant']")
        for found in list(tier):
            tier.remove(found)

    assert [found.kind for found in edited(tmp_path, change)] == ["delete"]


@pytest.mark.parametrize("is_one_text", [False, True])
def test_reading_a_document_grows_with_its_turns_and_not_with_their_square(tmp_path: Path, is_one_text: bool) -> None:
    def num_calls(number: int) -> int:
        """Count the function calls of reading a document in which each turn was moved or reworded."""
        said = [f"Good{'' if is_one_text else index}." for index in range(number)]
        turns = tuple(Turn(time_s=index / 2, role="assistant", text=text) for index, text in enumerate(said))
        sample = replace(SAMPLE, num_frames=number + 2, turns=turns)
        moved = tuple(replace(turn, time_s=turn.time_s + 0.25) for turn in turns[::2])
        reworded = tuple(replace(turn, text=f"{turn.text}!") for turn in turns[1::2])
        other = replace(sample, turns=tuple(sorted((*moved, *reworded), key=turn_order)))
        video = replace(reviewed_video(), sample=other, outputs=(), duration_s=number / 2, review=fold_actions([]))
        write_eaf(tmp_path / "a.eaf", video)
        calls = 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count)
        try:
            found = read_eaf_corrections(tmp_path / "a.eaf", sample=sample, reviewer="bob")
        finally:
            sys.setprofile(None)
        assert len(found) >= number // 2
        return calls

    assert num_calls(400) < 5 * num_calls(100)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=9), st.data())
@few
def test_the_nearest_pairs_are_those_of_trying_them_all(old: list[tuple[str, int]], data: st.DataObject) -> None:
    new = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=9))
    pairs = match_nearest(dict(enumerate(old)), dict(enumerate(new)))
    every = [(abs(a[1] - b[1]), i, j) for i, a in enumerate(old) for j, b in enumerate(new) if a[0] == b[0]]
    left, right, distances = set(range(len(old))), set(range(len(new))), []
    for distance, i, j in sorted(every):
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            distances.append(distance)
    assert len(pairs) == len(distances)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(old[i][0] == new[j][0] for i, j in pairs)
    assert min((abs(old[i][1] - new[j][1]) for i, j in pairs), default=0) == min(distances, default=0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda root: setattr(annotation(root, "S1->start")[0], "text", "S9->start"),
            "update annotation 'S9->start': an",
        ),
        (lambda root: setattr(annotation(root, "S1->start")[0], "text", " "), r"tier 'corrected: update', .* is empty"),
        (lambda root: [slot.attrib.pop("TIME_VALUE") for slot in root.iter("TIME_SLOT")], "has no start time"),
        (lambda root: setattr(root.find("HEADER/PROPERTY"), "text", "car"), "is of the video car, not of boat"),
        (lambda root: setattr(root, "tag", "html"), "its root is html, not ANNOTATION_DOCUMENT"),
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
        ("", "cannot be read as an ELAN document"),
        ("<ANNOTATION_DOCUMENT>", "cannot be read as an ELAN document"),
        ("<a>" * 3_000_000, "is larger than 8 MiB"),
        (
            '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><ANNOTATION_DOCUMENT>&x;</ANNOTATION_DOCUMENT>',
            "has a document type declaration, which ELAN never writes",
        ),
    ],
)
def test_a_file_that_is_no_elan_document_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "a.eaf").write_text(content)
    with pytest.raises(ValueError, match=reason):
        read_eaf_corrections(tmp_path / "a.eaf", sample=SAMPLE, reviewer="bob")


@pytest.mark.parametrize("offset_ms", [250, 1000, -500])
def test_a_media_offset_of_elan_changes_no_turn(tmp_path: Path, offset_ms: int) -> None:
    def shift(root: etree._Element) -> None:
        media = root.find("HEADER/MEDIA_DESCRIPTOR")
        if media is None:
            media = etree.SubElement(root.find("HEADER"), "MEDIA_DESCRIPTOR")
        media.set("TIME_ORIGIN", str(int(media.get("TIME_ORIGIN", "0")) + offset_ms))
        for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
            slot.set("TIME_VALUE", str(max(0, int(slot.get("TIME_VALUE")) - offset_ms)))

    assert edited(tmp_path, shift) == ()


@pytest.mark.parametrize("place", ["TIME_ORIGIN", "TIME_VALUE"])
@pytest.mark.parametrize("time", ["9" * 400, "9" * 5000, "x", "1e999", "\u0661"])
def test_a_time_that_is_no_number_of_milliseconds_is_refused_in_one_sentence(
    tmp_path: Path, place: str, time: str
) -> None:
    def change(root: etree._Element) -> None:
        if place == "TIME_ORIGIN":
            etree.SubElement(root.find("HEADER"), "MEDIA_DESCRIPTOR").set("TIME_ORIGIN", time)
            header = root.find("HEADER")
            header.insert(0, header[-1])
        else:
            for slot in root.iterfind("TIME_ORDER/TIME_SLOT"):
                slot.set("TIME_VALUE", time)

    with pytest.raises(ValueError, match=r"a\.eaf.* (no number of|no start time in) milliseconds") as caught:
        edited(tmp_path, change)
    assert len(str(caught.value)) < 400
