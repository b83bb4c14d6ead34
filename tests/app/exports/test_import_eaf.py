"""Corrections from edited ELAN documents, with the reviews that came since."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from stepscope.app.cli.stepscope import EXPORTS
from stepscope.app.exports.folder import correct_samples, gather_videos, import_eaf
from stepscope.app.exports.formats import write_export
from stepscope.app.review_store import store as store_module
from stepscope.app.review_store.review import fold_actions
from stepscope.app.review_store.store import ReviewStore, open_store
from stepscope.engine.cli.program import run_program
from stepscope.eval.annotations.corrections import Correction
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample
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
        path.write_text("<ANNOTATION_DOCUMENT/>")
        with pytest.raises(ValueError, match="lacks the properties of an export; export it again"):
            import_eaf(path, samples=SAMPLES, store=store, reviewer="bob")
        assert store.read() == ()


@pytest.mark.parametrize("last_action", ["own", "of another", ""])
def test_what_a_blind_reviewer_may_see_decides_and_not_the_properties_of_the_document(
    tmp_path: Path, last_action: str
) -> None:
    path = tmp_path / "boat.eaf"
    with open_store(tmp_path / "reviews.sqlite") as store:
        correct(store, Correction(reviewer="ann", kind="text", turn=NAMES[0], text="A SECRET"))
        correct(store, Correction(reviewer="bob", kind="time", turn=NAMES[4], time_s=5.0))
        ids = {"own": store.read()[-1].action_id, "of another": store.read()[0].action_id, "": ""}
        write_export(
            tmp_path, gather_videos([SAMPLE], review=fold_actions(store.read(), only="bob")), file_format="eaf"
        )
        document = etree.parse(str(path))
        for found in document.iter("PROPERTY"):
            forged = {"only": None, "last_action": ids[last_action]}
            if found.get("NAME") in forged:
                found.text = json.dumps(forged[found.get("NAME")])
        document.write(str(path))
        into: Any = {"samples": [SAMPLE], "store": store, "reviewer": "bob", "is_blind": True}
        if last_action == "of another":
            with pytest.raises(ValueError, match="or with some that you do not see"):
                import_eaf(path, **into)
        else:
            import_eaf(path, **into)
        kept = [action.correction for action in store.read() if action.reviewer == "bob"]
        assert {found.kind for found in kept if found} == {"time"}, "nothing of ann became bob's"
        assert all("SECRET" not in (found.text or "") for found in kept if found)


def test_a_document_with_more_corrections_than_a_reviewer_may_store_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(store_module.MAX_LIMITS, "actions", 2)
    with open_store(tmp_path / "reviews.sqlite", name_user=lambda: "192.0.2.1") as store:
        write_export(tmp_path, gather_videos([SAMPLE], review=fold_actions([])), file_format="eaf")
        document = etree.parse(str(tmp_path / "boat.eaf"))
        for value in document.iter("ANNOTATION_VALUE"):
            value.text = value.text.replace("S1", "S2")
        for tier in [tier for tier in document.iter("TIER") if "assistant" in tier.get("TIER_ID")]:
            for found in list(tier):
                tier.remove(found)
        document.write(str(tmp_path / "boat.eaf"))
        for name in ("mallory", "another name"):
            with pytest.raises(ValueError, match="you have stored 2 actions on this video, the most that are kept"):
                import_eaf(tmp_path / "boat.eaf", samples=[SAMPLE], store=store, reviewer=name)
        assert store.read() == ()
