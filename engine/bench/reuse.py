"""Time to the first token of an answer with and without reuse, by the length of the conversation."""

import time
from collections.abc import Iterator, Sequence

from stepscope.engine.chat.answering import AnswerDelta, AnswerEnd, Prefilled
from stepscope.engine.chat.prompts import ChatTurn, Conversation, render_conversation
from stepscope.engine.chat.timings import FirstToken, ReusePoint
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker
from stepscope.engine.model.checkpoint import Checkpoint

ANSWER_TOKENS = 4


def make_prompt(checkpoint: Checkpoint, num_turns: int) -> ChatPrompt:
    """Return the prompt of a conversation with ``num_turns`` answered turns and a question."""
    turns = [ChatTurn(question=f"What is step {n}?", answer=f"Attach part {n}.") for n in range(num_turns)]
    talk = Conversation(tuple(turns)).ask("What is next?")
    base = checkpoint.prompt.schema(goal="build it", steps=(), state={})
    return ChatPrompt(pieces=render_conversation(checkpoint.prompt, talk, base=base), features={})


def measure(worker: ChatWorker, prompt: ChatPrompt) -> FirstToken:
    """Answer a prompt; return the time to the first token."""
    began, first_s, share = time.perf_counter(), 0.0, 0.0
    for event in worker.answer(prompt, max_new_tokens=ANSWER_TOKENS):
        if isinstance(event, Prefilled):
            share = event.cached_tokens / event.prompt_tokens
        elif isinstance(event, AnswerDelta):
            first_s = first_s or time.perf_counter() - began
        elif isinstance(event, AnswerEnd):
            return FirstToken(first_s=first_s or time.perf_counter() - began, cached_share=share, ids=event.ids)
    raise AssertionError("an answer has an end")


def compare(checkpoint: Checkpoint, num_turns: int) -> ReusePoint:
    """Measure the question after ``num_turns`` turns, at least one. Raises ``AssertionError`` if the ids differ."""
    warm, cold = ChatWorker(checkpoint), ChatWorker(checkpoint)
    measure(warm, make_prompt(checkpoint, num_turns - 1))
    prompt = make_prompt(checkpoint, num_turns)
    found = measure(warm, prompt), measure(cold, prompt)
    if found[0].ids != found[1].ids:
        raise AssertionError("reuse changed the answer")
    return ReusePoint(num_turns=num_turns, prompt_tokens=len(prompt.pieces), warm=found[0], cold=found[1])


def compare_lengths(checkpoint: Checkpoint, turns: Sequence[int]) -> Iterator[ReusePoint]:
    """Yield the measurement of each length that fits the model; one before them initialises the libraries."""
    room = checkpoint.model.max_context - ANSWER_TOKENS
    measure(ChatWorker(checkpoint), make_prompt(checkpoint, 1))
    for num_turns in turns:
        if len(make_prompt(checkpoint, num_turns).pieces) <= room:
            yield compare(checkpoint, num_turns)
