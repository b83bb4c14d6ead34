"""Corrected gold answers of ProactiveVideoQA: the command and the page write them, and they load again."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

from stepscope.app.exports.__main__ import main
from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.review import fold_actions
from stepscope.app.reviews.store import open_store
from stepscope.app.tabs.reviews.import_export import write_zip
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples, read_split
from tests.support.paths import ROOT
from tests.support.reviews.reviewed import reviewed_video

SOURCE = ROOT / "tests" / "data" / "imports" / "gold.json"


def test_the_command_and_the_page_write_corrected_gold_answers_that_load_again(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text(json.dumps(json.loads(SOURCE.read_text())[:1]))
    split = read_split(tmp_path / "gold.json")
    (sample,) = split.samples
    answer = name_turns(sample.turns)[1]
    changes = (
        Correction(reviewer="ann", kind="text", turn=answer, text="It boils."),
        Correction(reviewer="ann", kind="span", turn=answer, time_s=4.0, end_s=6.5),
    )
    actions = [Action(kind="correction", reviewer="ann", video_id="kettle", correction=change) for change in changes]
    with open_store(tmp_path / "reviews.sqlite") as store:
        stored = store.append_all(actions)
    video = replace(reviewed_video(sample=sample), video_id="kettle", review=fold_actions(stored))
    options = ["--format", "proactive-videoqa", "--reviews", str(tmp_path / "reviews.sqlite")]
    assert main(["split", str(split.path), *options, "--out", str(tmp_path / "new.json")]) == 0
    (found,) = read_samples(tmp_path / "new.json")
    assert found == replace(sample, turns=(sample.turns[0], replace(sample.turns[1], text="It boils.", end_s=6.5)))

    content = "corrected split, as proactive-videoqa"
    written = write_zip(tmp_path, [video], content=content, split="gold", source=split)
    zipfile.ZipFile(written.path).extractall(tmp_path / "zip")
    assert (
        read_samples(tmp_path / "zip" / "gold-proactive-videoqa" / "gold.json", videos=tmp_path)[0].turns == found.turns
    )
