"""The sentences that say why a failure happened hold what the diagnosis holds, and no more."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.run import Run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.window.payload import pack_run
from stepscope.app.window.reasons import Packed, pack_evidence, pack_reasons
from stepscope.engine.evidence.records import Contrast, Evidence, EvidenceFile, FrameEvidence, write_evidence
from stepscope.engine.records import Step
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.matched_video import Failure
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder, digest_sample, evidence_path
from stepscope.eval.runs.roots import KeptEffect, ReferenceTurns
from tests.support.paths import ASSETS

DEMO = ASSETS / "demo"
SCORING = ScoreSettings(text_encoder="letters")


def read_runs(path: Path) -> dict[str, Run]:
    folder = RunFolder(path)
    settings = folder.settings() or {}
    return {
        sample.video_id: read_saved_run(
            folder, sample_clip(sample, sample.video_path or Path(), is_bundled=False),
            settings=settings, scoring=SCORING, encoder={},
        )
        for sample in read_split(DEMO / "test.json").samples
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> Mapping[str, Run]:
    """The bundled run, whose diagnosis has 64 failures."""
    return read_runs(DEMO / "run")


def list_failures(run: Run) -> list[Failure]:
    """Return the failures that the diagnosis of a run is of, so that no text encoder is needed."""
    assert run.kept is not None
    assert run.kept.video is not None
    return [
        Failure(kind=found.kind, frame_index=round(found.time_s * run.config.fps), end_frame=0, turn=None)
        for found in run.kept.video.failures
    ]


def explain(run: Run) -> tuple[Packed, list[Packed]]:
    return pack_reasons(run, list_failures(run))


def say(run: Run, number: int = 0) -> Packed:
    root: Packed = explain(run)[0]["roots"][number]
    return root


def with_root(run: Run, **changes: Any) -> Run:
    """Return a run whose first root is changed."""
    assert run.kept is not None
    assert run.kept.video is not None
    first, *others = run.kept.video.roots
    video = replace(run.kept.video, roots=(replace(first, **changes), *others))
    return replace(run, kept=replace(run.kept, video=video))


def with_effects(run: Run, *effects: KeptEffect, **changes: Any) -> Run:
    """Return a run of a diagnosis with these experiments alone."""
    assert run.kept is not None
    assert run.kept.diagnosis is not None
    tried = {effect.name: ReferenceTurns() for effect in effects}
    videos = [replace(video, results=tried) for video in run.kept.diagnosis.videos]
    diagnosis = run.kept.diagnosis.model_copy(update={"experiments": list(effects), "videos": videos})
    return with_root(replace(run, kept=replace(run.kept, diagnosis=diagnosis)), **changes)


def test_every_failure_of_the_bundled_run_has_a_sentence_in_the_words_of_its_video(runs: Mapping[str, Run]) -> None:
    sentences, consequences = list[str](), 0
    for run in runs.values():
        packed, of_failures = explain(run) if list_failures(run) else ({"roots": []}, [])
        for reason in of_failures:
            root = packed["roots"][reason["root"]]
            consequences += reason["is_consequence"]
            sentences.append(root["of_consequence"] if reason["is_consequence"] else root["words"])
    assert (len(sentences), consequences) == (64, 34), "as docs/why.md counts them"
    for sentence in sentences:
        assert sentence.endswith(".")
        assert not re.search(r"\bS\d", sentence), f"a step has a name: {sentence}"
        assert not re.search(r"\b1 later failures|\b[02-9] later failure\b|  |\.\.|None|nan", sentence), sentence


def test_a_root_says_what_follows_what_would_prevent_it_and_what_its_placebo_does(runs: Mapping[str, Run]) -> None:
    permuted = say(runs["robot-permuted"])
    assert permuted["words"] == (
        "Once it is corrected, 7 later failures vanish. It would be right if the prompt numbered the steps in the "
        "order in which it lists them. Tried in 8 videos, this corrects 3 of 7 wrong turns and breaks 0 of 126 right "
        "ones. A control that should change nothing, ids at random, corrects it too (2 corrected, 1 broken in all), so "
        "this is weak evidence."
    )
    assert permuted["of_consequence"] == (
        "Follows from 0:15.0: had it started “mount the block”, not “put on the head” there, 7 later failures would "
        "vanish."
    )
    assert say(runs["flower-pot-hard"], 1)["words"] == (
        "No later failure follows from it. It would be right if the steps were listed in the order done. Tried in 4 "
        "videos, this corrects 5 of 12 wrong turns and breaks 0 of 62 right ones. A control that should change "
        "nothing, steps at random, leaves it wrong (4 corrected, 10 broken in all)."
    )
    assert say(runs["robot-hard"])["words"].endswith(
        "Why is not known: 6 changes were tried, none prevents it reliably."
    )


def test_a_later_root_is_known_with_the_earlier_ones_corrected_alone(runs: Mapping[str, Run]) -> None:
    second = say(runs["desk-lamp-hard-permuted"], 1)
    assert second["words"].startswith("Once it and the earlier first mistake are corrected, 1 later failure vanishes.")
    assert second["of_consequence"] == (
        "Follows from 0:29.0: had it said “Put the sail back, it is not needed.” and not started “mount the shade” "
        "there, with the earlier first mistake corrected too, this failure would vanish."
    )
    hidden = say(runs["tower-hard"], 3)
    assert hidden["is_hidden"], "the run has no failure of its own there"
    assert hidden["words"].startswith(
        "Hidden: it fails only once the earlier first mistakes are corrected (wrong update, wrong state): here it "
        "should then have started “insert the flag”. Once it is corrected too, 2 later failures vanish."
    )
    assert hidden["of_consequence"] == (
        "Once the earlier first mistakes are corrected, it goes wrong at 0:40.0: had it started “insert the flag” "
        "there too, 2 later failures would vanish."
    )


def test_a_root_without_a_class_an_experiment_or_a_placebo_claims_none(runs: Mapping[str, Run]) -> None:
    run = runs["robot-permuted"]
    assert say(with_root(run, cause="", fixed_by=()))["words"] == "Once it is corrected, 7 later failures vanish."
    placebo_wins = say(with_root(run, cause="unexplained", fixed_by=("ids at random (placebo)",)))["words"]
    assert placebo_wins.endswith("Why is not known: 7 changes were tried, none prevents it reliably.")
    assert say(with_effects(run, cause="unexplained", fixed_by=()))["words"].endswith("No change was tried here.")
    history = say(with_root(run, cause="history", fixed_by=("gold history",)))["words"]
    assert history.endswith("It would be right if all earlier turns were those of the reference.")
    own = KeptEffect(name="short steps", kind="own", fixed=1)
    words = say(with_effects(run, own, cause="own", fixed_by=("short steps",)))["words"]
    effect = "Tried in 16 videos, this corrects 1 of 18 wrong turns and breaks 0 of 259 right ones."
    assert words.endswith(f"It would be right with the change “short steps”. {effect}")


def test_shares_at_other_seeds_follow_where_texts_are_sampled(runs: Mapping[str, Run]) -> None:
    words = say(with_root(runs["robot-permuted"], kept_share=0.8, corrected_share=0.1))["words"]
    assert words.endswith("At other seeds 80% of what follows happens without its correction, 10% with it.")


def test_a_correction_is_said_by_step_names_and_by_ids_only_without(runs: Mapping[str, Run]) -> None:
    run = runs["robot-permuted"]
    ids = replace(run, task=replace(run.task, steps=tuple(Step(id=step.id, name="") for step in run.task.steps)))
    assert run.kept is not None
    ids = replace(ids, kept=replace(run.kept, digest=ids.digest))
    assert "had it started S6, not S4 there" in say(ids)["of_consequence"]
    silent = say(with_root(run, frame=31, kinds=("redundant",), references=()))["of_consequence"]
    assert "had it stayed silent there" in silent
    completed = [
        replace(one, updates=("S4->complete",), legality=None) if one.frame_index == 31 else one for one in run.outputs
    ]
    too_early = with_root(replace(run, outputs=tuple(completed)), frame=31, kinds=("wrong update",), references=())
    assert "had it kept “put on the head” open there" in say(too_early)["of_consequence"]


def test_a_run_without_a_current_diagnosis_says_why(runs: Mapping[str, Run]) -> None:
    run = runs["robot-permuted"]
    failures = list_failures(run)
    assert run.kept is not None
    assert run.kept.video is not None

    def why_not(other: Run) -> str:
        packed, of_failures = pack_reasons(other, failures)
        assert of_failures == [{}] * len(failures)
        return str(packed["why_not"])

    stale = replace(run, kept=replace(run.kept, video=replace(run.kept.video, stale="it was run again")))
    assert why_not(stale) == "Its diagnosis is out of date, since it was run again: explain it again."
    other_failures = replace(run, kept=replace(run.kept, video=replace(run.kept.video, failures=())))
    assert "since it is of other failures" in why_not(other_failures)
    assert run.clip.sample is not None
    corrected = replace(run, clip=replace(run.clip, sample=replace(run.clip.sample, goal="another")))
    assert "since its reference or its entry in the split has changed" in why_not(corrected)
    assert why_not(replace(run, kept=replace(run.kept, video=None))).startswith("Not explained yet: ")
    damaged = replace(run, kept=replace(run.kept, video=None, problem="its diagnosis cannot be read: x"))
    assert why_not(damaged) == "its diagnosis cannot be read: x."
    moved = replace(run, config=replace(run.config, speak_threshold=0.4))
    assert why_not(moved).startswith("Not explained yet: exp"), "other thresholds are another run"
    assert why_not(replace(run, settings={**run.settings, "imported": ["a"]})).startswith(
        "Why is not known: this run was imported"
    )
    assert "this run was recorded" in why_not(replace(run, settings={**run.settings, "recorded": {"model": "m"}}))


def test_without_failures_or_before_the_end_nothing_is_said(runs: Mapping[str, Run]) -> None:
    run = runs["robot-permuted"]
    assert pack_reasons(run, []) == ({}, [])
    assert pack_reasons(replace(run, is_finished=False), list_failures(run))[0] == {}
    assert "why_not" not in pack_run(replace(run, clip=replace(run.clip, sample=None)))


def test_evidence_has_its_baselines_and_only_that_of_the_same_model_is_shown(tmp_path: Path) -> None:
    folder = shutil.copytree(DEMO / "run", tmp_path / "run")
    sample = next(sample for sample in read_split(DEMO / "test.json").samples if sample.video_id == "robot-permuted")
    frames = [
        FrameEvidence(
            frame_index=frame, log_odds=None if frame == 29 else 1.5, random_log_odds=0.25, recency=0.5, difference=0.1
        )
        for frame in (29, 30)
    ]
    evidence = Evidence(
        frame_index=30, time_s=15.0, target="text", contrast=Contrast(written="S4->start", expected="S6->start"),
        log_odds=0.49, random_log_odds=1.0, threshold=0.0, frames=tuple(frames), difference_of="pixels",
        fewest_last_frames=1, last_frames=(),
    )  # fmt: skip
    digest = str((RunFolder(folder).settings() or {})["model_digest"])
    content = EvidenceFile(source=digest_sample(sample), model_digest=digest, heads_digest="", decisions=(evidence,))
    write_evidence(evidence_path(folder, "robot-permuted"), content)
    [packed] = pack_evidence(read_runs(folder)["robot-permuted"])
    assert packed["words"] == (
        "Evidence for having started “put on the head”, not “mount the block”: log-odds +0.5; one picture moves them "
        "by at most 1.5; the last picture keeps the decision."
    )
    assert packed["series"]["log-odds"] == [None, 1.5]
    assert list(packed["series"]) == ["log-odds", "recency", "picture difference", "random weights"]
    write_evidence(evidence_path(folder, "robot-permuted"), replace(content, model_digest="another"))
    assert pack_evidence(read_runs(folder)["robot-permuted"]) == []
    (folder / "diagnosis.json").write_text("{", encoding="utf-8")
    run = read_runs(folder)["robot-permuted"]
    assert run.kept is not None
    assert run.kept.problem.startswith("its diagnosis cannot be read: diagnosis.json"), "no folder of the server"


def test_a_blind_page_sends_the_reasons_of_judged_failures_alone(runs: Mapping[str, Run]) -> None:
    run = runs["robot-permuted"]
    failures = list_failures(run)
    whole, of_failures = explain(run)
    first, later = [
        next(n for n, one in enumerate(of_failures) if one["is_consequence"] is kind) for kind in (False, True)
    ]
    assert run.kept is not None
    for judged, reasons in (([], []), ([later], []), ([first], [first]), ([first, later], sorted([first, later]))):
        blind = replace(run, kept=replace(run.kept, shown=frozenset(map(str, judged))))
        packed, sent = pack_reasons(blind, failures, [str(number) for number, _ in enumerate(failures)])
        assert packed["roots"] == (whole["roots"][:1] if reasons else [])
        assert [number for number, found in enumerate(sent) if found] == reasons
