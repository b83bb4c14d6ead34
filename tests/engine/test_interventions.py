"""Interventions: a branch of a run gives the outputs of a new run with the same changes, frame by frame."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.control.intervention import ForcedTurn, Intervention, force_outputs
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.replay import Recording
from stepscope.engine.stream import Streamer, StreamRequest
from tests.support.paths import ASSETS
from tests.support.streams import published_loop
from tests.support.streams.batches import stream_many
from tests.support.streams.fakes import STEPS, random_frames, tiny_checkpoint
from tests.support.streams.graphs import CountingBackend, with_graphs
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online, write_proassist
from tests.support.streams.streams import SHORT, TASK, assert_equal, between, decided, probs

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
NUM_FRAMES = 40
LIMITS: dict[str, Any] = {
    **SHORT,
    "max_seq_len": 240,
    "reserved_seq_len": 90,
    "kept_tokens": 30,
    "max_summary_tokens": 8,
    "max_updates_per_frame": 2,
}


def load_heads(folder: Path) -> tuple[Checkpoint, StreamConfig]:
    checkpoint = tiny_checkpoint(folder)
    silent = StreamConfig(**LIMITS, speak_threshold=1, update_threshold=1)
    outputs = list(Streamer(checkpoint, silent).run(random_frames(checkpoint, NUM_FRAMES), TASK))
    speak, update = (
        between([getattr(output, name) for output in outputs], 0.2) for name in ("speak_prob", "update_prob")
    )
    return checkpoint, replace(silent, speak_threshold=speak, update_threshold=update)


def load_other(write: Callable[[Path], Path], policy: str | None, folder: Path) -> tuple[Checkpoint, StreamConfig]:
    checkpoint = load_model(write(folder), device="cpu")
    checkpoint = replace(checkpoint, trained_policy=policy) if policy else checkpoint
    return checkpoint, published_loop.settings(checkpoint)


def load_thinking(folder: Path) -> tuple[Checkpoint, StreamConfig]:
    """Load a model in whose texts each token of some ends a reasoning."""
    checkpoint, config = load_other(lambda path: write_hub(path, "qwen2_5_vl"), None, folder)
    read = checkpoint.prompt.text

    def think(ids: Sequence[int]) -> str:
        return "".join("</think>" if token % 5 == 0 else read([token]) for token in ids)

    vars(checkpoint.prompt)["text"] = think
    return checkpoint, config


def strategy(name: ContextStrategy) -> Callable[[Path], tuple[Checkpoint, StreamConfig]]:
    def load(folder: Path) -> tuple[Checkpoint, StreamConfig]:
        checkpoint, config = load_heads(folder)
        return checkpoint, replace(config, context_strategy=name)

    return load


MODELS: dict[str, Callable[[Path], tuple[Checkpoint, StreamConfig]]] = {
    "heads": load_heads,
    "sink-window": strategy("sink-window"),
    "drop-all": strategy("drop-all"),
    "drop-middle": strategy("drop-middle"),
    "summarize-and-drop": strategy("summarize-and-drop"),
    "online": lambda folder: load_other(lambda path: write_online(path, terse=True), None, folder),
    "proassist": lambda folder: load_other(lambda path: write_proassist(path, grid=2, terse=True), None, folder),
    "hub-answers": lambda folder: load_other(lambda path: write_hub(path, "qwen2_5_vl"), None, folder),
    "hub-states": lambda folder: load_other(lambda path: write_hub(path, "qwen3_vl"), "state-token", folder),
    "hub-reserved": lambda folder: load_other(lambda path: write_hub(path, "llava"), "reserved-text", folder),
}
SLOW = {"drop-middle", "summarize-and-drop", "proassist", "hub-reserved"}


class Case:
    """A finished run of a tiny model, and new runs of its frames with interventions."""

    def __init__(self, checkpoint: Checkpoint, config: StreamConfig) -> None:
        self.checkpoint, self.config = checkpoint, config
        self.frames: list[FrameFeatures] = list(random_frames(checkpoint, NUM_FRAMES))
        self._named: dict[str, list[FrameOutput]] = {}

    def record(self) -> Recording:
        """Return a copy of the finished run, with a KV cache of its own: a branch takes the cache over."""
        recording = copy.copy(self._recording)
        recording._cache = copy.deepcopy(recording._cache)
        return recording

    @cached_property
    def _recording(self) -> Recording:
        recording = Recording(self.checkpoint, self.frames, task=TASK, config=self.config)
        list(recording.run())
        return recording

    def run_new(self, change: Intervention, *, written: Recording | None = None) -> list[FrameOutput]:
        """Return the outputs of a new run with an intervention, one frame and one token at a time.

        Texts that the run ``written`` wrote have its ids: a random model writes ids that no tokenizer returns.
        """
        config = (change.config or self.config).frame_by_frame()
        prior_run = written._prior_run and PriorRun(outputs=(), written=written._prior_run.written) if written else None
        request = replace(self.request(change), prior_run=prior_run)
        return stream_many(Streamer(self.checkpoint, config), [request], max_batch_size=1)["video"]

    def run_named(self, name: str) -> list[FrameOutput]:
        """Return the outputs of a new run with one of ``CHANGES``, which is made once."""
        if name not in self._named:
            self._named[name] = self.run_new(CHANGES[name], written=self._recording)
        return self._named[name]

    def request(self, change: Intervention) -> StreamRequest:
        task = change.change_task(TASK)
        return StreamRequest(video_id="video", features=self.frames, task=task, intervention=change)


@pytest.fixture(scope="module")
def load_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    return cache(lambda name: Case(*MODELS[name](tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS])
def case(request: pytest.FixtureRequest, load_case: Callable[[str], Case]) -> Case:
    return load_case(request.param)


@pytest.fixture
def heads(load_case: Callable[[str], Case]) -> Case:
    return load_case("heads")


def test_the_own_outputs_forced_give_the_run(case: Case) -> None:
    recording = case.record()
    assert any(output.response is not None for output in recording.outputs)
    forced = force_outputs(recording.outputs, until=NUM_FRAMES)
    assert_equal(case.run_new(forced, written=recording), recording.outputs)
    branch = recording.branch(forced)
    assert_equal(list(branch.run()), recording.outputs)
    assert branch.counts.tokens == 0, "everything is in the trace"


CHANGES: dict[str, Intervention] = {
    "history": Intervention(
        turns={
            4: ForcedTurn(updates=("S1->start", "S2->complete"), response="Good. Now put on the roof."),
            11: ForcedTurn(response="Careful."),
        },
        until=16,
    ),
    "probes": Intervention(turns={4: ForcedTurn(updates=("S1->start",), response="Good.")}, until=30, is_probed=True),
    "one message": Intervention(turns={9: ForcedTurn(has_own_updates=True), 20: ForcedTurn(response="Good.")}),
    "one update": Intervention(turns={9: ForcedTurn(updates=("S1->start",), has_own_response=True)}),
    "state": Intervention(states={0: {"S2": "in_progress"}, 12: {"S1": "completed"}}, refreshes=frozenset({12, 25})),
    "pictures": Intervention(pictures=dict.fromkeys(range(6, 12), 5) | {20: 30, 30: 20}),
    "task": Intervention(task=Task(goal="build the boat", steps=STEPS[::-1])),
    "later task": Intervention(task=Task(goal="build the boat", steps=STEPS[:1]), task_from=10),
    "question": Intervention(questions=(UserTurn(time_s=6, text="What now?"),)),
}


FEWER = {"history", "state", "later task", "question"}
"""Changes that models take which share most of their way with another one."""
PAIRS = [
    pytest.param(model, name, marks=[pytest.mark.slow] if model in SLOW else [])
    for model in MODELS
    for name in CHANGES
    if model in ("heads", "online", "hub-answers", "hub-states") or name in FEWER
]


@pytest.mark.parametrize(("case", "name"), PAIRS, indirect=["case"])
def test_a_branch_gives_the_outputs_of_a_new_run_with_the_same_intervention(case: Case, name: str) -> None:
    recording, change = case.record(), CHANGES[name]
    branch = recording.branch(change)
    outputs = list(branch.run())
    # a later task forces the own turns before it
    is_whole = branch.intervention == change
    assert_equal(outputs, case.run_named(name) if is_whole else case.run_new(branch.intervention, written=recording))
    assert decided(outputs) != decided(recording.outputs)


def test_a_branch_of_a_branch_has_both_interventions(case: Case) -> None:
    first, second = CHANGES["pictures"], CHANGES["one message"]
    branch = case.record().branch(first)
    list(branch.run())
    again = branch.branch(second)
    assert_equal(list(again.run()), case.run_new(first.join(second)))


@pytest.mark.parametrize("later", ["settings", "task"])
def test_what_differs_before_later_settings_or_a_later_task_keeps_its_effect(heads: Case, later: str) -> None:
    first, own = CHANGES["pictures"], heads.config
    at = {"settings": Intervention(config=own, config_from=18), "task": Intervention(task=TASK, task_from=18)}[later]
    before = heads.record().branch(first)
    alone = list(before.run())
    assert decided(alone[:18]) != decided(heads.record().outputs[:18])
    branch = heads.record().branch(first.join(at))
    outputs = list(branch.run())
    assert_equal(outputs[:18], alone[:18])
    assert later == "task" or decided(outputs) == decided(alone), "the settings are those in force"
    assert_equal(outputs, heads.run_new(branch.intervention, written=before))
    loud = Intervention(config=replace(own, speak_threshold=0.0), config_from=18)
    outputs = list(heads.record().branch(first.join(loud)).run())
    assert decided(outputs[:18]) == decided(alone[:18])
    assert all(output.response is not None for output in outputs[18:])


def test_the_reasoning_of_a_thinking_model_is_replayed(tmp_path: Path) -> None:
    case = Case(*load_thinking(tmp_path))
    recording = case.record()
    assert {bool(output.response) for output in recording.outputs if output.reasoning} == {True, False}
    forced = force_outputs(recording.outputs, until=30)
    assert_equal(case.run_new(forced, written=recording), recording.outputs)
    first = recording.branch(forced)
    assert_equal(list(first.run()), recording.outputs)
    assert first.counts.tokens == 0
    second = Intervention(turns={32: ForcedTurn(response="Good.")})
    again = first.branch(second)  # the forced texts of the first branch keep their ids
    assert_equal(list(again.run()), case.run_new(forced.join(second), written=recording))
    speak = between([output.speak_prob for output in recording.outputs], 0.6)
    moved = recording.at(speak_threshold=speak, update_threshold=1.0)
    outputs = list(moved.run())
    assert decided(outputs) != decided(recording.outputs)
    assert_equal(outputs, case.run_new(moved.intervention, written=recording))


def test_branches_share_passes_and_static_steps(case: Case) -> None:
    names = ("history", "pictures", "state")
    wanted = {name: case.run_named(name) for name in names}
    requests = [replace(case.request(CHANGES[name]), video_id=name) for name in names]
    together = stream_many(Streamer(case.checkpoint, case.config), requests, max_batch_size=3)
    backend = CountingBackend()
    static = stream_many(Streamer(with_graphs(case.checkpoint, backend), case.config), requests, max_batch_size=2)
    for name in names:
        assert_equal(together[name], wanted[name])
        assert_equal(static[name], wanted[name])


def test_forced_updates_of_a_model_that_answers_leave_no_text() -> None:
    checkpoint = load_model(ASSETS / "checkpoint-answer", device="cpu")
    config = checkpoint.fit_config(StreamConfig(**LIMITS, update_threshold=0.05))
    case = Case(checkpoint, config)
    recording = case.record()
    assert checkpoint.prompt.update_opening
    assert any(output.updates for output in recording.outputs)
    branch = recording.branch(force_outputs(recording.outputs, until=NUM_FRAMES))
    assert decided(list(branch.run())) == decided(recording.outputs)
    assert branch.counts.tokens == 0


def test_probes_answer_from_the_forced_history_and_leave_it_as_it_is(heads: Case) -> None:
    recording, forced = heads.record(), CHANGES["probes"]
    probed = list(recording.branch(forced).run())
    plain = list(recording.branch(replace(forced, is_probed=False)).run())
    assert torch.allclose(probs(probed), probs(plain), atol=1e-4)
    assert [output.cache_tokens for output in probed] == [output.cache_tokens for output in plain]
    assert plain[4].updates == ("S1->start",)
    assert plain[4].response == "Good."
    for frame in (4, 10, 25):  # each probe is the free turn after the history up to it
        history = replace(forced, is_probed=False, turns=dict(forced.turns) if frame > 4 else {}, until=frame)
        assert decided(list(recording.branch(history).run()))[frame][1:4] == decided(probed)[frame][1:4]


def test_a_forced_turn_counts_as_a_trigger_for_the_frames_after_it(heads: Case) -> None:
    config = replace(heads.config, decision_policy="heads-hysteresis", speak_threshold=0.0)
    case = Case(heads.checkpoint, config)
    forced = case.run_new(Intervention(turns={3: ForcedTurn(response="Good."), 0: ForcedTurn()}))
    spoken = [output.frame_index for output in forced if output.response is not None]
    assert spoken[:2] == [1, 3], "a forced silence is no trigger"
    refractory = case.config.policy.refractory_s
    assert refractory is not None
    assert len(spoken) < 3 or spoken[2] >= 3 + refractory * case.config.fps


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Intervention(turns={40: ForcedTurn()}), "frame 40 cannot be changed; the run has 40 frames"),
        (Intervention(pictures={1: 41}), "frame 41 cannot be changed"),
    ],
)
def test_a_frame_that_does_not_exist_is_refused(heads: Case, change: Intervention, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        heads.record().branch(change)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="either forced or the model's own"):
        ForcedTurn(response="Good.", has_own_response=True)
    with pytest.raises(ValueError, match="at least 0"):
        Intervention(turns={-1: ForcedTurn()})
    with pytest.raises(ValueError, match="the state of S1 must be one of"):
        Intervention(states={3: {"S1": "done"}})
