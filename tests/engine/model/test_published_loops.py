"""The published assistants stream as their published loops, on plain transformers and PEFT."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import Image
from stepscope.engine.control.task import Task
from stepscope.engine.inference.runner import embed_inputs
from stepscope.engine.inspection import trace_frames
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import UserTurn
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import random_frames
from tests.support.streams.published import write_online, write_proassist
from tests.support.streams.published_loop import TASK, PublishedLoop, settings

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's


def stream_online(
    loop: PublishedLoop, checkpoint: Checkpoint, frames: list[FrameFeatures], theta: float, questions: dict[int, str]
) -> list[str | None]:
    """Return the reply at each frame as demo/inference.py decides it; text of the template written out."""
    tokenizer = checkpoint.prompt.tokenizer

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    interval, eos = ids(",")[0], tokenizer.convert_tokens_to_ids("<|eot_id|>")
    system = (
        "A multimodal AI assistant is helping users with some activities. Below is their conversation, interleaved "
        "with the list of video frames received by the assistant."
    )
    replies: list[str | None] = []
    waiting = (tokenizer.convert_tokens_to_ids("<|begin_of_text|>"), *ids(f"{system}\n\n["))
    for frame in frames:
        scores = loop.feed(waiting, frame.features).softmax(-1)
        if scores[interval] < theta:
            scores[interval] = 0
        if (question := questions.get(frame.index)) is not None:
            logits = loop.feed(ids(f"]\nUser: {question}\nAssistant:"))
        elif int(scores.argmax()) == interval:
            waiting = (interval,)
            replies.append(None)
            continue
        else:
            logits = loop.feed(ids("]\nAssistant:"))
        written: list[int] = []
        while (token := int(logits.argmax())) != eos and len(written) < 7:
            written.append(token)
            if len(written) < 7:
                logits = loop.feed((token,))
        waiting = (*(written[-1:] if len(written) == 7 else ()), eos, *ids("\n["))
        replies.append(tokenizer.decode(written, skip_special_tokens=True).strip())
    return replies


def without_refresh(checkpoint: Checkpoint, speak_threshold: float) -> StreamConfig:
    return checkpoint.fit_config(StreamConfig(max_new_tokens=7, speak_threshold=speak_threshold))


@pytest.mark.parametrize("theta", [0.0, 0.725])
def test_videollm_online_speaks_as_the_published_loop(tmp_path: Path, theta: float) -> None:
    folder = write_online(tmp_path, terse=True)
    checkpoint, loop = load_model(folder, device="cpu"), PublishedLoop(folder, "connector")
    frames = list(random_frames(checkpoint, 10))
    task = Task(user_turns=(UserTurn(time_s=2.6, text="What is next?"),))
    outputs = list(Streamer(checkpoint, without_refresh(checkpoint, 1 - theta)).run(frames, task))
    replies = stream_online(loop, checkpoint, frames, theta, {5: "What is next?"})
    assert [output.response for output in outputs] == replies
    assert outputs[5].response is not None
    assert theta > 0.5 or None in replies
    assert any(reply is not None for reply in replies[:5] + replies[6:])


def test_proassist_speaks_as_the_published_loop(tmp_path: Path) -> None:
    folder = write_proassist(tmp_path, grid=2, terse=True)
    checkpoint, loop = load_model(folder, device="cpu"), PublishedLoop(folder, "mm_projector")
    frames, tokenizer = list(random_frames(checkpoint, 10)), checkpoint.prompt.tokenizer
    threshold = settings(checkpoint).speak_threshold
    task = Task(user_turns=(UserTurn(time_s=2.6, text="What is next?"),))
    outputs = list(Streamer(checkpoint, without_refresh(checkpoint, threshold)).run(frames, task))
    eot = tokenizer.convert_tokens_to_ids("<|eot_id|>")

    def message(role: str, text: str) -> tuple[int, ...]:
        template = f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"
        return tuple(tokenizer(template, add_special_tokens=False)["input_ids"])

    system = (
        "You are a proactive assistant. Pay close attention to the user's actions and provide relevant information "
        "proactively."
    )
    waiting = (tokenizer.convert_tokens_to_ids("<|begin_of_text|>"), *message("system", system))
    replies: list[str | None] = []
    for frame in frames:
        if frame.index == 5:
            waiting = message("user", "What is next?")
        logits = loop.feed(waiting, frame.features)
        waiting, written = (), list[int]()
        not_talk = 1 - threshold
        logits[eot] = 1e4 if logits.softmax(-1)[eot] > not_talk else -1e4
        while (token := int(logits.argmax())) != eot and len(written) < 7:
            written.append(token)
            if len(written) < 7:
                logits = loop.feed((token,))
        text = tokenizer.decode(written).split("<|end_header_id|>")[-1]
        for special in ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>"):
            text = text.replace(special, "")
        replies.append(text.strip() if written else None)
    assert [output.response for output in outputs] == replies
    assert 0 < replies.count(None) < 10


@pytest.mark.parametrize(("write", "connector"), [(write_online, "connector"), (write_proassist, "mm_projector")])
def test_hidden_states_are_those_of_plain_transformers_and_peft(
    tmp_path: Path, write: Callable[..., Path], connector: str
) -> None:
    folder = write(tmp_path, grid=3, terse=True)
    checkpoint, loop = load_model(folder, device="cpu"), PublishedLoop(folder, connector)
    frames = list(random_frames(checkpoint, 12))
    config = settings(checkpoint)
    trace = trace_frames(checkpoint, frames, task=TASK, config=replace(config, max_seq_len=4096))
    pieces = [computed.item.piece for computed in trace.contexts[0]]
    assert sum(isinstance(piece, Image) for piece in pieces) == 12
    for piece in pieces:
        by_frame = frames[piece.frame_index].features if isinstance(piece, Image) else None
        ids = () if isinstance(piece, Image) else (piece,)
        parts = [loop.inputs, loop.model.get_input_embeddings()(torch.tensor(ids, dtype=torch.long)).detach()]
        parts += [] if by_frame is None else [loop.connector(by_frame).detach()]
        loop.inputs = torch.cat(parts)
    inputs = [frames[piece.frame_index].features if isinstance(piece, Image) else piece for piece in pieces]
    with torch.inference_mode():
        ours = checkpoint.model(embed_inputs(checkpoint.model, inputs)[None])[0]
    assert torch.allclose(ours, loop.hidden(), atol=1e-4)
