"""Image-text models of the hub: a stream is the model's own forward over the whole conversation."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from stepscope.engine.chat.prompts import render_run
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.questions import SPEAK_QUESTION
from stepscope.engine.control.requests import Branch, ForwardRequest, FrameTimesRequest, Image
from stepscope.engine.inference.readout import make_readout_spec
from stepscope.engine.inference.runner import Runner
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.hub.families import MODEL_TYPES
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.model.prompt import schema_text
from stepscope.engine.records import UserTurn
from stepscope.engine.stream import Streamer
from tests.support.data.records import make_output
from tests.support.streams.hub import write_hub
from tests.support.streams.hub_runs import (
    NUM_FRAMES,
    STEPS,
    TASK,
    count_image_tokens,
    hub_parts,
    make_frames,
    make_images,
    run_traced,
    settings,
    spell,
)


@pytest.fixture(scope="module", params=MODEL_TYPES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    if request.param == "bundled":
        return load_model("bundled", device="cpu")
    return load_model(write_hub(tmp_path_factory.mktemp("hub"), request.param), device="cpu")


def find_replies(checkpoint: Checkpoint, pieces: list[int | Image]) -> list[int]:
    """Return where the replies of a context begin, behind their openings."""
    opening = list(hub_parts(checkpoint)[1].response_opening)
    return [n + len(opening) for n in range(len(pieces)) if pieces[n : n + len(opening)] == opening]


def own_inputs(checkpoint: Checkpoint, ids: list[int], num_images: int) -> dict[str, Tensor]:
    """Return a conversation as the model's own forward and ``generate`` take it."""
    model, prompt = hub_parts(checkpoint)
    size = model.frame_size(60, 120)
    resized = [model.resize_image(image, size) for image in make_images(num_images)]
    pixels = normalize_images(resized, size=size, normalization=checkpoint.normalization)
    inputs = model.frame_format.prepare(pixels)
    if model.frame_format.is_video:
        inputs = {"pixel_values_videos": inputs["pixel_values"]}
    if model.frame_format.model_type in ("idefics3", "smolvlm"):
        inputs = {"pixel_values": pixels[:, None]}  # they take several images of one sample
    if model.has_grid:
        inputs["mm_token_type_ids"] = torch.tensor([[int(token in prompt.suppress_tokens) for token in ids]])
    # given, since generate would mask a BOS token that is also the padding token
    return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long), **inputs}


@torch.no_grad()
def forward_whole(checkpoint: Checkpoint, ids: list[int], num_images: int) -> tuple[Tensor, Tensor]:
    """Return the last hidden states and the logits of the model's own forward over a whole conversation."""
    inputs = own_inputs(checkpoint, ids, num_images)
    output = hub_parts(checkpoint)[0].vlm(**inputs, output_hidden_states=True)
    return output.hidden_states[-1][0], output.logits[0]


def test_the_texts_of_a_stream_are_those_of_generate(checkpoint: Checkpoint) -> None:
    config = settings(checkpoint)
    outputs, context = run_traced(checkpoint, config)
    assert sum(len(output.updates) for output in outputs) > 1
    model, prompt = hub_parts(checkpoint)
    written, ends = [], (prompt.eos_id, *prompt.other_ends)
    for start in find_replies(checkpoint, context):
        before = context[:start]
        ids, num_images = spell(checkpoint, before), sum(isinstance(piece, Image) for piece in before)
        inputs: dict[str, Any] = own_inputs(checkpoint, ids, num_images)
        found = model.vlm.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=config.max_new_tokens,
            eos_token_id=list(ends),
            suppress_tokens=list(prompt.suppress_tokens),
        )
        reply = [token for token in found[0, len(ids) :].tolist() if token not in ends]
        kept = context[start : start + len(reply)]  # the last token of the stream is not fed
        assert kept == reply[: len(context) - start], "the context has each reply as it was generated"
        written.append(prompt.text(reply))
    assert len(written) > 1
    assert written == [output.response for output in outputs if output.response is not None]


@pytest.mark.parametrize("checkpoint", ["smolvlm", "qwen2_5_vl", "bundled"], indirect=True)
def test_questions_in_one_pass_equal_those_asked_one_by_one_and_leave_no_trace(checkpoint: Checkpoint) -> None:
    asking = replace(checkpoint, trained_policy="answer")
    config = asking.fit_config(StreamConfig())
    model, prompt = checkpoint.model, checkpoint.prompt
    branched, alone = (
        Runner(model, config, features=make_frames(checkpoint, 2), readout_spec=make_readout_spec(asking, config))
        for _ in range(2)
    )
    for runner in (branched, alone):
        runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=2))
    questions = [prompt.question(text) for text in ("Speak now?", "Has the wheel been attached to the axle?", "Done?")]
    opening = prompt.schema(goal="Be brief.", steps=STEPS, state={step.id: "not_started" for step in STEPS})
    inputs: tuple[int | Image, ...] = (*opening, Image(frame_index=0), 7, Image(frame_index=1))
    asked, branches = list[float](), list[Branch]()
    for part in (inputs[:-2], inputs[-2:]):
        alone.forward(ForwardRequest(num_cached=alone.cache.length, inputs=part, frames=range(2)))
        length, position, held = read_cache(alone.cache)
        branches += [Branch(position=length - 1, ids=ids) for ids in questions]
        for ids in questions:
            request = ForwardRequest(num_cached=length, inputs=ids, frames=range(2), decision_positions=(len(ids) - 1,))
            asked.append(alone.forward(request).decisions[0].speak_prob)
        alone.cache.crop_to(length)
        assert read_cache(alone.cache)[:2] == (length, position)
        assert torch.equal(read_cache(alone.cache)[2], held)
    request = ForwardRequest(num_cached=0, inputs=inputs, frames=range(2), branches=tuple(branches))
    assert branched.forward(request).answers == pytest.approx(asked, abs=1e-5)
    assert max(asked) - min(asked) > 0.001
    assert read_cache(branched.cache)[:2] == (length, position)
    assert torch.allclose(read_cache(branched.cache)[2], held, atol=1e-5)


@pytest.mark.parametrize("checkpoint", ["qwen2_5_vl"], indirect=True)
def test_a_decision_is_read_behind_the_end_of_the_reasoning_that_a_prompt_opens(checkpoint: Checkpoint) -> None:
    model, plain = hub_parts(checkpoint)
    tokenizer = copy.deepcopy(plain.tokenizer)
    tokenizer.chat_template = tokenizer.chat_template.replace("assistant\n", "assistant\n<think>\n")
    prompt = HubPrompt(tokenizer, image_id=plain.image_id, frame_format=model.frame_format)
    thinking = replace(checkpoint, prompt=prompt, trained_policy="answer")
    config = replace(thinking.fit_config(StreamConfig()), speak_threshold=1, update_threshold=1)
    frames = make_frames(thinking, 1)
    (output,) = Streamer(thinking, config).run(frames, TASK)
    runner = Runner(model, config, features=frames, readout_spec=make_readout_spec(thinking, config))
    runner.fetch_frame_times(FrameTimesRequest(first=0, max_frames=1))
    schema = prompt.schema(goal=TASK.goal, steps=STEPS, state={step.id: "not_started" for step in STEPS})
    asked, closed = prompt.question(SPEAK_QUESTION), prompt.ids("\n</think>\n\n")
    inputs: tuple[int | Image, ...] = (*schema, *prompt.before_image(after=schema), Image(frame_index=0))
    inputs += (*asked, *closed)
    place = len(inputs) - 2 + model.count_tokens(frames[0].features)
    request = ForwardRequest(num_cached=0, inputs=inputs, frames=range(1), decision_positions=(place,))
    assert prompt.ids("<think>\n") == asked[-len(prompt.ids("<think>\n")) :]
    assert runner.forward(request).decisions[0].speak_prob == pytest.approx(output.speak_prob, abs=1e-5)


def read_cache(cache: KVCache) -> tuple[int, int, Tensor]:
    """Return the length, the next position, and a copy of all keys and values."""
    return (
        cache.length,
        cache.next_position,
        torch.stack([x for layer in cache.layers for x in layer.read(cache.length)]),
    )


REPLIES = {1: "Good, go on.", 2: "Is it the 2nd?", 5: "It's done."}
QUESTIONS = ((0.0, "What now?"), (1.5, "Is this the roof?"), (1.5, "And that?"), (2.0, "How many wheels (of 4)?"))
"""Seconds and texts: they open the stream, follow a reply, and follow a silent frame."""


@pytest.mark.parametrize("frame_text", ["", "<{start:g}s-{end:g}s>\n"])
def test_the_ids_of_a_run_are_those_of_the_render(checkpoint: Checkpoint, frame_text: str) -> None:
    """The chat renders a run; tests/engine/chat/test_prompts.py compares it with the context of the stream."""
    _, prompt = hub_parts(checkpoint)
    config = StreamConfig(decision_policy="answer", frame_text=frame_text, system_prompt="Be brief.")
    task = replace(TASK, user_turns=tuple(UserTurn(time_s=time_s, text=text) for time_s, text in QUESTIONS))
    outputs = [make_output(frame, response=REPLIES.get(frame)) for frame in range(NUM_FRAMES)]
    pieces = render_run(prompt, task, outputs, config=config, pictures=["1-a"] * NUM_FRAMES)
    context = [piece if isinstance(piece, int) else Image(frame_index=0) for piece in pieces]
    own = spell(checkpoint, context)
    assert own == tokenize(checkpoint, write_messages(checkpoint, config), in_order=True)[: len(own)]


_IN_ORDER = {
    "llava": (
        "{% for message in messages %}{{ '' if message['role'] == 'system' else message['role'].upper() + ': ' }}"
        "{% for part in message['content'] %}{% if part['type'] == 'image' %}{{ '<image>\n' }}{% else %}"
        "{{ part['text'] + ' ' }}{% endif %}{% endfor %}{% endfor %}"
    ),
    "llava_onevision": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] }}"
        "{{ '' if message['role'] == 'assistant' else ' ' }}{% for part in message['content'] %}"
        "{{ '<video>' if part['type'] == 'video' else '\n' + part['text'] }}{% endfor %}{{ '<|im_end|>' }}{% endfor %}"
    ),
}
"""Templates that would move images before texts, with the parts in order, and replies behind the generation prompt."""


def write_messages(checkpoint: Checkpoint, config: StreamConfig) -> list[dict[str, Any]]:
    """Return the run as messages, with a last one that is cut off."""
    model, _ = hub_parts(checkpoint)
    state = {step.id: "not_started" for step in STEPS}
    system = schema_text(goal=TASK.goal, steps=STEPS, state=state, instructions=config.system_prompt)
    messages: list[dict[str, Any]] = [{"role": "system", "content": [say(system)]}, {"role": "user", "content": []}]
    for frame in range(NUM_FRAMES):
        content = messages[-1]["content"]
        content += [say(f"{text}\n") for time_s, text in QUESTIONS if time_s * 2 == frame]
        if config.frame_text:
            content.append(say(config.text_before(frame)))
        content.append({"type": "video" if model.frame_format.is_video else "image"})
        reply = REPLIES.get(frame)
        if reply is not None:
            messages += [{"role": "assistant", "content": [say(reply)]}, {"role": "user", "content": []}]
    if not messages[-1]["content"]:
        messages[-1]["content"].append({"type": "video" if model.frame_format.is_video else "image"})
    return messages


def say(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def tokenize(
    checkpoint: Checkpoint, messages: list[dict[str, Any]], *, in_order: bool = False, opens: bool = False
) -> list[int]:
    """Return the ids of the template's render of a whole conversation, as the processor tokenises it.

    If it ``opens`` a reply, the generation prompt follows.
    """
    model, prompt = hub_parts(checkpoint)
    template = _IN_ORDER.get(model.frame_format.model_type) if in_order else None
    rendered = str(
        prompt.tokenizer.apply_chat_template(
            messages, tokenize=False, chat_template=template, add_generation_prompt=opens
        )
    )
    image = str(prompt.tokenizer.convert_ids_to_tokens(prompt.suppress_tokens[0]))
    frame = model.frame_format
    whole = frame.opening + image * count_image_tokens(checkpoint) + frame.closing
    return list(prompt.tokenizer(rendered.replace(image, whole))["input_ids"])


def test_the_ids_of_a_question_are_those_of_the_published_template(checkpoint: Checkpoint) -> None:
    model, prompt = hub_parts(checkpoint)
    frames = [Image(frame_index=0), Image(frame_index=1)]
    begun = prompt.system("Be brief.")
    begun += prompt.before_image(after=begun)
    own = spell(checkpoint, (*begun, *frames, *prompt.question("What is this?")))
    images = [{"type": "video" if model.frame_format.is_video else "image"}] * 2
    messages = [
        {"role": "system", "content": [say("Be brief.")]},
        {"role": "user", "content": [*images, say("What is this?")]},
    ]
    assert own == tokenize(checkpoint, messages, opens=True)
    messages[1]["content"] = images
    own = spell(checkpoint, (*begun, *frames, *prompt.response_opening))
    assert own == tokenize(checkpoint, messages, opens=True), "a reply without a question opens as in generate"


@pytest.mark.parametrize("policy", ["state-token", "reserved-text"])
def test_states_have_the_probabilities_of_the_models_own_forward(checkpoint: Checkpoint, policy: str) -> None:
    written = "silence=no, standby=no no, response=yes</Response>"
    config = replace(settings(checkpoint), decision_policy=policy, states=written, speak_threshold=1)
    outputs, context = run_traced(checkpoint, config)
    _, prompt = hub_parts(checkpoint)
    for frame in (0, NUM_FRAMES - 1):
        at = next(n for n, piece in enumerate(context) if piece == Image(frame_index=frame))
        seen = [*spell(checkpoint, context[: at + 1]), *prompt.response_opening]
        logprobs = []
        for text in ("no", "no no", "yes</Response>"):
            ids = list(prompt.state(text))
            rows = forward_whole(checkpoint, [*seen, *ids], frame + 1)[1].double().log_softmax(-1)[len(seen) - 1 : -1]
            logprobs.append(rows[range(len(ids)), ids].sum())
        silence, standby, response = torch.stack(logprobs).exp().tolist()
        if policy == "reserved-text":
            assert outputs[frame].speak_prob == pytest.approx(1 - silence, abs=1e-4)
            continue
        total = silence + standby + response
        wanted = {"silence": silence / total, "standby": standby / total, "response": response / total}
        assert outputs[frame].signals == pytest.approx(wanted, abs=1e-4)
        assert outputs[frame].speak_prob == pytest.approx(response / (response + max(silence, standby)), abs=1e-4)
