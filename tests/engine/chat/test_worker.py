"""Answers of a worker: with reuse they equal those of a cold worker, also after clients have disconnected."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import pytest

from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, Prefilled
from stepscope.engine.chat.prompts import ContextPiece, Conversation, count_tokens, render_conversation, render_run
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker, name_frames
from stepscope.engine.config import StreamConfig
from stepscope.engine.errors import ContextError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.replay import Recording
from tests.support.stores import check_store
from tests.support.streams.fakes import random_frames, tiny_checkpoint
from tests.support.streams.hub import write_hub
from tests.support.streams.streams import TASK

NUM_FRAMES = 12
MAX_TOKENS = 12


@pytest.fixture(scope="module", params=["mean", "qwen2_5_vl"])
def checkpoint(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Checkpoint:
    folder = tmp_path_factory.mktemp("chat")
    if request.param == "qwen2_5_vl":
        return load_model(write_hub(folder, request.param), device="cpu")
    return tiny_checkpoint(folder, pooling=request.param)


class Talk:
    """A run of random frames, and questions about it to one worker."""

    def __init__(self, checkpoint: Checkpoint, *, seed: int = 0, worker: ChatWorker | None = None) -> None:
        self.frames = list(random_frames(checkpoint, NUM_FRAMES, seed=seed))
        self.config = checkpoint.fit_config(StreamConfig(max_new_tokens=6, speak_threshold=0.5, update_threshold=0.7))
        self.recording = Recording(checkpoint, self.frames, task=TASK, config=self.config)
        list(self.recording.run())
        self.checkpoint, self.worker = checkpoint, worker or ChatWorker(checkpoint)
        self.names, self.features = name_frames(checkpoint.model, self.frames)

    def prompt(self, talk: Conversation, *, frame: int = NUM_FRAMES - 1) -> ChatPrompt:
        codec = self.checkpoint.prompt
        outputs = self.recording.outputs[: frame + 1]
        base = render_run(codec, TASK, outputs, config=self.recording.config, pictures=self.names)
        return ChatPrompt(pieces=render_conversation(codec, talk, base=base), features=self.features)

    def ask(self, talk: Conversation, *, frame: int = NUM_FRAMES - 1) -> tuple[Conversation, int]:
        """Answer the open question, as a cold worker would; return the conversation and the cached tokens."""
        prompt = self.prompt(talk, frame=frame)
        warm = list(self.worker.answer(prompt, max_new_tokens=MAX_TOKENS))
        cold = list(ChatWorker(self.checkpoint).answer(prompt, max_new_tokens=MAX_TOKENS))
        prefilled, end = next(event for event in warm if isinstance(event, Prefilled)), warm[-1]
        assert isinstance(end, AnswerEnd)
        assert isinstance(cold[-1], AnswerEnd)
        assert end.ids == cold[-1].ids
        assert prefilled.cached_tokens + prefilled.prefilled_tokens == prefilled.prompt_tokens
        assert prefilled.prompt_tokens == count_tokens(prompt.pieces)
        assert "".join(event.text for event in warm if isinstance(event, AnswerDelta)) == end.text
        check_store(self.worker.store)
        return talk.answered(end.text), prefilled.cached_tokens


def test_append_edit_regenerate_and_branch_equal_a_cold_worker(checkpoint: Checkpoint) -> None:
    talk = Talk(checkpoint)
    first, cached = talk.ask(Conversation().ask("What is next?", pictures=talk.names[-1:]))
    assert cached == 0
    second, cached = talk.ask(first.ask("And then?"))
    assert cached > 0
    for conversation in (second.regenerate(), second.edit(0, "Is it done?"), first.ask("Why?"), second.ask("So?")):
        _, cached = talk.ask(conversation)
        assert cached > len(talk.names)


def test_a_moved_playhead_and_other_thresholds_equal_a_cold_worker(checkpoint: Checkpoint) -> None:
    talk = Talk(checkpoint)
    question = Conversation().ask("What is next?")
    for frame in (7, 11, 3, 7):
        talk.ask(question, frame=frame)
    talk.recording = talk.recording.at(speak_threshold=0.2, update_threshold=0.9)
    list(talk.recording.run())
    _, cached = talk.ask(question)
    assert cached > 0


def test_stop_then_continue_equals_a_cold_worker(checkpoint: Checkpoint) -> None:
    talk = Talk(checkpoint)
    question = Conversation().ask("What is next?")
    deltas: list[AnswerDelta] = []
    answer = talk.worker.answer(talk.prompt(question), max_new_tokens=50, is_stopped=lambda: len(deltas) == 3)
    for end in answer:
        deltas += [end] if isinstance(end, AnswerDelta) else []
    assert isinstance(end, AnswerEnd)
    assert end.is_stopped
    assert len(end.ids) == 3
    _, cached = talk.ask(question.answered(end.text).ask("And then?"))
    assert cached >= count_tokens(talk.prompt(question).pieces)


def test_an_answer_ends_at_every_end_token(checkpoint: Checkpoint) -> None:
    talk = Talk(checkpoint)
    prompt = talk.prompt(Conversation().ask("What is next?"))
    *_, whole = ChatWorker(checkpoint).answer(prompt, max_new_tokens=MAX_TOKENS)
    assert isinstance(whole, AnswerEnd)
    other = copy(checkpoint.prompt)
    other.other_ends = (whole.ids[2],)
    *_, end = ChatWorker(replace(checkpoint, prompt=other)).answer(prompt, max_new_tokens=MAX_TOKENS)
    assert isinstance(end, AnswerEnd)
    assert end.ids == whole.ids[: whole.ids.index(whole.ids[2])]


def test_an_answer_is_what_follows_the_reasoning(checkpoint: Checkpoint) -> None:
    thinking = copy(checkpoint.prompt)

    def think(ids: Sequence[int]) -> str:
        return "<think>a" + ("</think>" + checkpoint.prompt.text(ids[3:]) if len(ids) > 3 else "")

    vars(thinking)["text"] = think
    worker = ChatWorker(replace(checkpoint, prompt=thinking))
    prompt = Talk(checkpoint).prompt(Conversation().ask("What is next?"))
    *events, end = worker.answer(prompt, max_new_tokens=MAX_TOKENS)
    assert isinstance(end, AnswerEnd)
    assert end.text == checkpoint.prompt.text(end.ids[3:])
    assert end.text == "".join(event.text for event in events if isinstance(event, AnswerDelta))


def test_eviction_and_return_equal_a_cold_worker(checkpoint: Checkpoint) -> None:
    none = ChatWorker(checkpoint, budget_bytes=0)
    for worker in (none, ChatWorker(checkpoint, budget_bytes=40_000, host_budget_bytes=2**30)):
        talk = Talk(checkpoint, worker=worker)
        other = Talk(checkpoint, seed=1, worker=talk.worker)
        question = Conversation().ask("What is next?")
        for one in (talk, other, talk):
            one.ask(question)


def test_two_videos_with_equal_ids_and_other_pixels_never_share(checkpoint: Checkpoint) -> None:
    first = Talk(checkpoint)
    second = Talk(checkpoint, seed=1, worker=first.worker)
    second.recording.outputs = first.recording.outputs  # the same tokens everywhere, but the frames differ
    question = Conversation().ask("What is next?")
    first.ask(question)
    _, cached = second.ask(question)
    state = {step.id: "not_started" for step in TASK.steps}
    assert cached == len(checkpoint.prompt.schema(goal=TASK.goal, steps=TASK.steps, state=state))


def test_a_client_that_leaves_restores_the_cache(checkpoint: Checkpoint) -> None:
    talk = Talk(checkpoint)
    first, _ = talk.ask(Conversation().ask("What is next?"))
    before = talk.worker.store.stats.device_bytes
    answer = talk.worker.answer(talk.prompt(first.ask("And then?")), max_new_tokens=50)
    next(answer)
    answer.close()
    check_store(talk.worker.store)
    assert talk.worker.store.stats.num_locked == 0
    assert talk.worker.store.stats.device_bytes >= before
    _, cached = talk.ask(first.ask("And then?"))
    assert cached > 0


def test_a_conversation_that_does_not_fit_is_refused(checkpoint: Checkpoint) -> None:
    pieces: Sequence[ContextPiece] = [5] * checkpoint.model.max_context
    with pytest.raises(ContextError, match="begin a new one"):
        list(ChatWorker(checkpoint).answer(ChatPrompt(pieces=tuple(pieces), features={})))
