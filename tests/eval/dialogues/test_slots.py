"""Dialogues of templates: what is said when, from the steps and updates so far alone."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.dialogue import initial_state, parse_update
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.dialogues.check import NamedParts, check_dialogue, find_problem
from stepscope.eval.dialogues.slots import build_turns, follow_updates, plan_dialogue
from stepscope.eval.dialogues.templates import write_text
from tests.support.data.records import make_sample
from tests.support.paths import ASSETS

BUNDLED = [sample for name in ("test", "val") for sample in read_samples(ASSETS / "demo" / f"{name}.json")]
STEPS = tuple(Step(id=f"S{i}", name=name) for i, name in enumerate(["cut the bun", "pour_milk", "Stir."], start=1))


def annotated(*updates: str, **changes: object) -> Sample:
    """Return a video of 10 s; an update is written ``2.0 S1->start`` or ``2.0 S1->complete cause``."""
    turns = []
    for update in updates:
        time_s, text, *cause = update.split(" ", 2)
        turns.append(Turn(time_s=float(time_s), role="update", text=text, cause=cause[0] if cause else None))
    return make_sample(steps=STEPS, turns=tuple(turns), **changes)


def write(sample: Sample, *, rate: float = 0.0, num_questions: int | None = None) -> Sample:
    slots = plan_dialogue(sample, rate=rate, num_questions=num_questions)
    return replace(sample, turns=build_turns(sample, slots, [write_text(slot, sample) for slot in slots]))


def said(sample: Sample) -> dict[float, str]:
    """Return what the assistant says, by time."""
    return {turn.time_s: turn.text for turn in write(sample).turns if turn.role == "assistant"}


def with_graph(sample: Sample) -> Sample:
    """Return a sample in which each step comes after the one before the last in the recipe."""
    after = {step.id: (sample.steps[i].id,) for i, step in enumerate(sample.steps[2:])}
    return replace(sample, video_id=f"{sample.video_id}-graph", after=after)


@pytest.mark.parametrize("sample", [*BUNDLED, *map(with_graph, BUNDLED)], ids=lambda sample: sample.video_id)
def test_no_text_depends_on_what_comes_later(sample: Sample) -> None:
    whole = write(sample)
    names = NamedParts(sample)
    slots = plan_dialogue(sample, rate=0.4)
    assert not [p for slot in slots if (p := find_problem(write_text(slot, sample), slot, names))]
    assert not list(check_dialogue(write(sample, rate=0.4)))
    for num_frames in range(1, sample.num_frames, 6):
        kept = tuple(turn for turn in sample.turns if frame_at(turn.time_s, sample.fps) < num_frames)
        early = write(replace(sample, num_frames=num_frames, turns=kept))
        before_end_s = (num_frames - 1) / sample.fps  # the last frame has the summary
        texts = [
            [(turn.time_s, turn.text) for turn in one.turns if turn.time_s < before_end_s] for one in (early, whole)
        ]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("sample", BUNDLED, ids=lambda sample: sample.video_id)
def test_answers_agree_with_the_states_and_questions_are_at_quiet_frames(sample: Sample) -> None:
    turns = write(sample, num_questions=4).turns
    others = [turn for turn in turns if turn.role == "update"]
    num_asked = 0
    for question, reply in pairwise(turns):
        if question.role != "user" or question.time_s == 0:
            continue
        num_asked += 1
        assert (reply.role, reply.time_s) == ("assistant", question.time_s)
        assert all(abs(turn.time_s - question.time_s) >= 1.5 for turn in others)
        state = initial_state(sample.steps)
        for turn in others:
            update = parse_update(turn.text)
            if turn.time_s <= question.time_s and update:
                state[update.step_id] = "in_progress" if update.transition == "start" else "completed"
        done = [step for step in sample.steps if state[step.id] == "completed"]
        if "How many" in question.text:
            left = len(sample.steps) - len(done)
            assert (f"{left} step" if left else "No step is left" if "No" in reply.text else "all") in reply.text
        elif "done" in question.text:
            assert sum(step.name in reply.text for step in done) >= min(1, len(done))
            assert not [step for step in sample.steps if step not in done and step.name in reply.text]
        else:
            opened = [step for step in sample.steps if state[step.id] == "in_progress"]
            following = (opened or [step for step in sample.steps if state[step.id] == "not_started"])[:1]
            assert all(step.name in reply.text for step in following)
    assert num_asked >= 2


def test_a_step_that_is_not_the_next_one_is_named_when_it_starts() -> None:
    sample = annotated("1 S1->start", "3 S1->complete", "5 S3->start", "8 S3->complete")
    texts = said(sample)
    assert "cut the bun" in texts[0.0]
    assert "pour milk" in texts[3.0]
    assert "stir" in texts[5.0]
    assert "stir" not in texts[3.0]
    assert "pour milk" in texts[8.0]
    assert 1.0 not in texts, "it was named in the opening"
    assert "2 of 3 steps" in texts[9.5]
    assert "All 3 steps" not in " ".join(texts.values())


def test_a_step_that_starts_beside_another_one_is_named() -> None:
    texts = said(annotated("1 S1->start", "3 S2->start", "5 S1->complete", "8 S2->complete"))
    assert "pour milk" in texts[3.0]
    assert "pour milk" in texts[5.0]
    assert "stir" in texts[8.0]


def test_the_next_step_follows_the_graph_of_the_recipe() -> None:
    sample = annotated("1 S1->start", "3 S1->complete", after={"S2": ("S3",), "S1": ()})
    assert "stir" in said(sample)[3.0]
    assert follow_updates(sample).known_at == {"S1": -1, "S2": math.inf, "S3": -1}
    assert "pour milk" not in "".join(said(sample).values())
    texts = said(annotated("1 S1->start", "3 S1->complete", "4 S3->start", "5 S3->complete", after={"S2": ("S3",)}))
    assert ["pour milk" in texts[time_s] for time_s in (3.0, 5.0)] == [False, True]


def test_a_reply_span_lasts_from_the_completion_to_the_next_start() -> None:
    sample = annotated(
        "1 S1->start", "3 S1->complete", "5 S2->start", "6 S2->complete", "6 S3->start", "9 S3->complete"
    )
    spans = {turn.time_s: turn.end_s for turn in write(sample).turns if turn.role == "assistant"}
    assert spans == {0.0: None, 3.0: 5.0, 6.0: None, 9.0: None}


def test_a_mistake_is_corrected_at_the_end_of_its_step_and_not_before() -> None:
    sample = annotated("1 S1->start", "3 S1->complete wrong knife", "5 S2->start")
    turns = [turn for turn in write(sample, num_questions=3).turns if turn.role == "assistant"]
    corrections = [turn for turn in turns if "wrong knife" in turn.text]
    assert [(turn.time_s, turn.cause) for turn in corrections] == [(3.0, "wrong knife")]
    assert "“cut the bun”" in corrections[0].text
    assert "pour milk" in corrections[0].text


def test_updates_of_one_frame_get_one_sentence_that_knows_them_all() -> None:
    sample = annotated("0 S1->start", "2.0 S1->complete", "2.3 S2->start", "9.5 S2->complete")
    texts = said(sample)
    assert list(texts) == [0.0, 2.3, 9.5]
    assert "cut the bun" in texts[0.0]
    assert "pour milk" in texts[2.3]
    assert "stir" in texts[9.5]
    assert "2 of 3 steps" in texts[9.5]


@pytest.mark.parametrize(
    ("updates", "changes"),
    [
        (["0 S1->start"], {"num_frames": 1}),
        (["1 S1->complete", "1 S1->complete", "2 S1->start"], {}),
        (["1 S2->start"], {"initial_state": {"S1": "completed", "S3": "in_progress"}, "goal": ""}),
        (["1 S1->start"], {"initial_state": {step.id: "completed" for step in STEPS}}),
        (["4 S1->start", "4 S2->start", "4 S3->start", "4 S3->complete", "4 S2->complete", "4 S1->complete"], {}),
        (["1 S1->start", "2 S1->complete"], {"goal": "pour milk"}),
    ],
)
def test_odd_annotations_become_dialogues_without_foresight(updates: list[str], changes: dict[str, object]) -> None:
    sample = annotated(*updates, **changes)
    names, slots = NamedParts(sample), plan_dialogue(sample, rate=1.0)
    for slot in slots:
        assert find_problem(write_text(slot, sample), slot, names) == "", slot
    assert list(check_dialogue(write(sample, rate=1.0))) == []
    assert slots[-1].is_last or slots[-1].question


def test_the_command_writes_the_same_split_again_with_its_origin_and_counts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((ASSETS / "demo" / "test.json").read_text())
    content["videos"] = [{**video, "video_path": None} for video in content["videos"][:3]]
    content["videos"].append({**content["videos"][0], "video_id": "none", "turns": []})
    content["provenance"] = {"dataset": "scenes"}
    source = tmp_path / "split.json"
    source.write_text(json.dumps(content))
    first, second, third = (tmp_path / f"{name}.json" for name in "abc")
    for out, rate in ((first, "0.4"), (second, "0.4"), (third, "0")):
        assert main(["dialogues", str(source), "--out", str(out), "--rate", rate]) == 1
    shown = capfd.readouterr()
    assert "left out: none: it has no steps with updates" in shown.err
    assert "videos 3, videos left out 1, turns 31, turns by templates 31, questions 5, " in shown.out
    assert "earlier turns replaced 26\n" in shown.out
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()
    split = read_split(first)
    assert (split.reference_writer, split.provenance["rate"]) == ("templates", 0.4)
    assert split.provenance["source_provenance"] == {"dataset": "scenes"}
    turns = [turn.text for turn in split.samples[0].turns]
    again = replace(split.samples[0], video_id="another")
    assert [turn.text for turn in write(again, rate=0.4).turns] != turns, "wordings differ between videos"
    assert main(["dialogues", str(third), "--check"]) == 0
    assert "0 findings in 3 videos" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "give --out"),
        (["--check", "--out", "x.json"], "give --out"),
        (["--out", "x.json", "--rate", "2"], "--rate must be from 0 to 1"),
        (["--out", "x.json", "--model", "m"], "needs both --endpoint and --model"),
        (["--out", "x.json", "--endpoint", "http://127.0.0.1:1/v1"], "needs both --endpoint and --model"),
        (["--out", "x.json", "--endpoint", "ws://127.0.0.1:1", "--model", "m"], "http://"),
        (["--out", str(ASSETS / "demo" / "val.json")], "is the split itself"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["dialogues", str(ASSETS / "demo" / "val.json"), *options]) == 2
    assert reason in capfd.readouterr().err
