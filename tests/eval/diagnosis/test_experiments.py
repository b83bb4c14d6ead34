"""Experiments change a task as they say, or nothing; a file of experiments is checked key by key."""

from pathlib import Path

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.records import Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.diagnosis.experiments import (
    KINDS,
    Situation,
    Variant,
    choose_affordable,
    list_experiments,
    read_experiments,
)

SAMPLE = Sample(
    video_id="video",
    fps=2.0,
    num_frames=8,
    goal="build the boat",
    steps=(Step(id="S2", name="hull"), Step(id="S1", name="mast"), Step(id="S3", name="flag")),
    turns=(
        Turn(time_s=1.0, role="update", text="S2->start"),
        Turn(time_s=2.0, role="update", text="S3->start"),
        Turn(time_s=2.0, role="update", text="not an update"),
        Turn(time_s=3.0, role="update", text="S1->start"),
    ),
    initial_state={"S1": "in_progress"},
)
START = Variant(sample=SAMPLE, config=StreamConfig())
NO_CUTS = Situation(has_cuts=False)
BY_NAME = {experiment.name: experiment for experiment in list_experiments()}


def vary(name: str, start: Variant = START, situation: Situation = NO_CUTS) -> Variant | None:
    return BY_NAME[name].vary(start, situation)


def test_ids_in_listing_order_are_renamed_in_the_steps_the_reference_and_the_initial_state() -> None:
    found = vary("ids in listing order")
    assert found is not None
    assert [(step.id, step.name) for step in found.sample.steps] == [("S1", "hull"), ("S2", "mast"), ("S3", "flag")]
    assert [turn.text for turn in found.sample.turns] == ["S1->start", "S3->start", "not an update", "S2->start"]
    assert found.sample.initial_state == {"S2": "in_progress"}
    assert vary("ids in listing order", found) is None, "they are in order already"
    assert vary("ids at random", found) is None, "the placebo has the same videos"


def test_steps_in_the_order_done_keep_their_ids() -> None:
    found = vary("steps in the order done")
    assert found is not None
    assert [step.id for step in found.sample.steps] == ["S2", "S3", "S1"]
    assert found.sample.turns == SAMPLE.turns
    assert vary("steps in the order done", found) is None


def test_forgetting_is_tried_only_where_the_context_was_cut() -> None:
    assert vary("a context that is never cut") is None
    found = vary("a context that is never cut", situation=Situation(has_cuts=True, max_tokens=50_000))
    assert found is not None
    assert found.config.refresh_at > 50_000
    elsewhere = vary("cuts elsewhere", situation=Situation(has_cuts=True))
    assert elsewhere is not None
    assert elsewhere.config.max_seq_len < START.config.max_seq_len


def test_every_kind_has_a_placebo_and_all_changes_are_reproducible() -> None:
    cut = Situation(has_cuts=True, max_tokens=50_000)
    for kind in KINDS:
        placebos = [one for one in list_experiments() if one.kind == kind and one.is_placebo]
        assert bool(placebos) == (kind != "own")
    for experiment in list_experiments():
        found = experiment.vary(START, cut)
        assert found is not None
        assert found == experiment.vary(START, cut)
        assert found != START


def test_a_budget_keeps_kinds_with_their_placebos_cheapest_first_and_the_own_ones_in_any_case(tmp_path: Path) -> None:
    (path := tmp_path / "own.yaml").write_text("polite:\n  goal: please {goal}\n")
    experiments = list_experiments(read_experiments(path))
    costs = {one.name: 3.0 if one.kind == "own" else 0.5 + KINDS.index(one.kind) for one in experiments}
    chosen = choose_affordable(experiments, costs, budget=6 + 1 + 3)
    assert {one.kind for one in choose_affordable(experiments, costs, budget=5)} == {"own"}
    assert [one.name for one in chosen] == [
        "a context that is never cut",
        "cuts elsewhere",
        "ids in listing order",
        "ids at random",
        "polite",
        "polite, words mixed",
    ]


def test_an_own_experiment_changes_goal_steps_and_settings(tmp_path: Path) -> None:
    (path := tmp_path / "own.yaml").write_text(
        "polite:\n  goal: please {goal}\n  steps: {S1: the mast, flag: a red flag}\n  speak_threshold: 0.4\n"
        "quiet:\n  speak_threshold: 0.9\n"
    )
    polite, placebo, quiet = read_experiments(path)
    found, mixed, silent = (one.vary(START, NO_CUTS) for one in (polite, placebo, quiet))
    assert found is not None
    assert mixed is not None
    assert silent is not None
    assert found.sample.goal == "please build the boat"
    assert [step.name for step in found.sample.steps] == ["hull", "the mast", "a red flag"]
    assert found.config.speak_threshold == mixed.config.speak_threshold == 0.4
    assert mixed.sample.goal != found.sample.goal
    assert sorted(mixed.sample.steps[2].name.split()) == ["a", "flag", "red"]
    assert silent.sample == SAMPLE
    assert [one.is_placebo for one in (polite, placebo, quiet)] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "must map names of experiments to their changes"),
        ("a: 3", "a must map goal, steps or settings to values; got 3"),
        ("a: {gaol: x}", "a.gaol is no change"),
        ("a: {fps: 4}", "a.fps is no change"),
        ("a: {speak_threshold: 2}", r"a.speak_threshold must be within \[0, 1\]; got 2"),
        ("a: {goal: 3}", "a.goal must be text; got 3"),
        ("a: {steps: [x]}", "a.steps must map ids or names to new names"),
        ("steps at random: {goal: x}", "has the name of another one"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, text: str, reason: str) -> None:
    (path := tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_experiments(path)
