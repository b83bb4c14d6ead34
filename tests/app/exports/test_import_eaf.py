"""Corrections from edited ELAN documents, with the reviews that came since."""

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stepscope.app.cli.stepscope import EXPORTS
from stepscope.app.exports.folder import correct_samples, gather_videos, import_eaf
from stepscope.app.exports.formats import write_export
from stepscope.app.reviews.review import fold_actions
from stepscope.app.reviews.store import ReviewStore, open_store
from stepscope.engine.cli.program import run_program
from stepscope.eval.annotations.corrections import Correction
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.data.writers import write_samples
from tests.support.data.shared_data import shared
from tests.support.paths import ROOT
from tests.support.reviews.exported import correct, reword
from tests.support.reviews.reviewed import NAMES, SAMPLE, SAMPLES, UNRUN

main = partial(run_program, EXPORTS, prog="stepscope export")


def current(store: ReviewStore) -> Sample:
    return correct_samples([SAMPLE], review=fold_actions(store.read()))[0].sample


def test_what_was_edited_in_elan_becomes_corrections_and_what_others_did_since_stands(tmp_path: Path) -> None:
    path = tmp_path / "boat.eaf"
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="text", turn=NAMES[0], text="Lay down the hull."))
        write_export(tmp_path, gather_videos(SAMPLES, review=fold_actions(store.read())), file_format="eaf")
        correct(store, Correction(reviewer="ann", kind="time", turn=NAMES[4], time_s=5.0))
        reword(path, "S1->start", "S2->start")
        actions = import_eaf(path, samples=SAMPLES, store=store, reviewer=" bob ")
        assert [action.correction for action in actions] == [
            Correction(reviewer="bob", kind="update", turn=NAMES[1], text="S2->start")
        ]
        after = current(store)
        assert [(turn.time_s, turn.text[:18]) for turn in after.turns if turn.role != "user"] == [
            (0.0, "Lay down the hull."),
            (1.0, "S2->start"),
            (3.0, "S1->complete"),
            (3.0, "S2->start"),
        ]
        assert [turn.time_s for turn in after.turns if turn.role == "user"] == [5.0]
        num_actions = len(store.read())
        assert import_eaf(path, samples=SAMPLES, store=store, reviewer="bob") == ()
        assert (current(store), len(store.read())) == (after, num_actions)
        correct(store, Correction(reviewer="bob", kind="update", turn=NAMES[1], text="S1->complete"))
        assert len(import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")) == 1  # it had been superseded
        assert current(store) == after


def test_importing_grows_with_the_turns_and_not_with_their_square(tmp_path: Path) -> None:
    def num_calls(number: int) -> int:
        """Count the function calls of importing a document in which every turn was moved, for the second time."""
        turns = tuple(Turn(time_s=index / 2, role="assistant", text=f"{index}") for index in range(number))
        sample = replace(SAMPLE, num_frames=number + 2, turns=turns)
        path, calls = tmp_path / "boat.eaf", 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        with open_store(tmp_path / f"{number}.sqlite") as store:
            write_export(tmp_path, gather_videos([sample], review=fold_actions([])), file_format="eaf")
            document = ElementTree.parse(path)
            for slot in document.iterfind("TIME_ORDER/TIME_SLOT"):
                slot.set("TIME_VALUE", str(int(slot.get("TIME_VALUE", "0")) + 250))
            document.write(path)
            assert len(import_eaf(path, samples=[sample], store=store, reviewer="bob")) == number
            sys.setprofile(count)
            try:
                assert import_eaf(path, samples=[sample], store=store, reviewer="bob") == ()
            finally:
                sys.setprofile(None)
        return calls

    assert num_calls(200) < 5 * num_calls(50)


def test_additions_at_one_time_are_not_compared_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, number, comparisons, compare = tmp_path / "boat.eaf", 200, 0, Correction.__eq__

    def count(first: Correction, second: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return compare(first, second)

    with open_store(tmp_path / "reviews.sqlite") as store:
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions([])), file_format="eaf")
        document = ElementTree.parse(path)
        tier = document.find("TIER[@TIER_ID='corrected: assistant']")
        order = document.find("TIME_ORDER")
        assert tier is not None
        assert order is not None
        ElementTree.SubElement(order, "TIME_SLOT", TIME_SLOT_ID="new", TIME_VALUE="2000")
        for index in range(number):
            parent = ElementTree.SubElement(tier, "ANNOTATION")
            names = {"ANNOTATION_ID": f"new{index}", "TIME_SLOT_REF1": "new", "TIME_SLOT_REF2": "new"}
            added = ElementTree.SubElement(parent, "ALIGNABLE_ANNOTATION", names)
            ElementTree.SubElement(added, "ANNOTATION_VALUE").text = f"Text {index}."
        document.write(path)
        monkeypatch.setattr(Correction, "__eq__", count)
        assert len(import_eaf(path, samples=[SAMPLE], store=store, reviewer="bob")) == number
    assert comparisons < 2 * number


def test_a_missing_tier_is_refused_and_nothing_is_kept_unless_deletions_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, where = tmp_path / "boat.eaf", tmp_path / "reviews.sqlite"
    write_samples(tmp_path / "split.json", [SAMPLE], file_format="manifest")
    with open_store(where) as store:
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions([])), file_format="eaf")
        path.write_text(path.read_text().replace("corrected: assistant", "said by the assistant"))
        arguments = ["import", str(path), "--split", str(tmp_path / "split.json"), "--reviewer", "bob"]
        arguments += ["--reviews", str(where)]
        assert main(arguments) == 2
        assert "has no tier 'corrected: assistant'" in capsys.readouterr().err
        assert store.read() == ()
        assert main([*arguments, "--allow-deletions"]) == 0
        assert [action.correction.kind for action in store.read() if action.correction] == ["delete"]


def test_a_document_of_one_reviewers_view_is_read_against_that_view(tmp_path: Path) -> None:
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="delete", turn=NAMES[0]))
        correct(store, Correction(reviewer="bob", kind="time", turn=NAMES[1], time_s=1.5))
        blind = fold_actions(store.read(), only="bob")
        write_export(tmp_path, gather_videos([SAMPLE], review=blind), file_format="eaf")
        assert import_eaf(tmp_path / "boat.eaf", samples=[SAMPLE], store=store, reviewer="bob") == ()


def test_the_case_with_a_media_offset_has_no_corrections(tmp_path: Path) -> None:
    samples = read_samples(ROOT / "assets" / "demo" / "test.json")
    with open_store(tmp_path / "reviews.sqlite") as store:
        assert import_eaf(shared("cases/origin.eaf"), samples=samples, store=store, reviewer="bob") == ()


def test_a_document_of_another_store_or_split_or_of_elan_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "boat.eaf"
    with open_store(tmp_path / "reviews.sqlite") as store, open_store(tmp_path / "other.sqlite") as other:
        correct(other, Correction(reviewer="ann", kind="delete", turn=NAMES[0]))
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions(other.read())), file_format="eaf")
        with pytest.raises(ValueError, match="was exported from another store of reviews"):
            import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")
        with pytest.raises(ValueError, match="is of the video boat, which is not in the split"):
            import_eaf(path, samples=[UNRUN], store=other, reviewer="bob")
        deep = re.sub(r'(<PROPERTY NAME="prefer">)[^<]*', r"\1" + "[" * 100_000, path.read_text())
        for content in ("<ANNOTATION_DOCUMENT/>", deep):
            path.write_text(content)
            with pytest.raises(ValueError, match="lacks the properties of an export; export it again"):
                import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")
        assert store.read() == ()
