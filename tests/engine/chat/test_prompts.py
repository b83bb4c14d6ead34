"""Prompts of questions: the context of a run, and conversations."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.chat.prompts import (
    ChatTurn,
    ContextPiece,
    Conversation,
    count_tokens,
    render_conversation,
    render_run,
)
from stepscope.engine.config import ContextStrategy, StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.requests import Answer, EvictRequest, ForwardRequest, FrameTimesRequest, Image
from stepscope.engine.inference.readout import make_readout_spec
from stepscope.engine.inference.runner import Runner, forward_batch
from stepscope.engine.live.frames import make_gap
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import FrameOutput
from tests.support.streams.fakes import EOS, RESPONSE, CharacterCodec, random_frames, tiny_checkpoint
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_proassist
from tests.support.streams.published_loop import TASK, settings

CODEC = CharacterCodec()


FAMILIES: dict[str, Callable[[Path], Checkpoint]] = {
    "smolvlm": lambda folder: tiny_checkpoint(folder, pooling="none", is_terse=True),
    "proassist": lambda folder: load_model(write_proassist(folder, grid=2, terse=True), device="cpu"),
    "qwen2_5_vl": lambda folder: load_model(write_hub(folder, "qwen2_5_vl"), device="cpu"),
    "llava": lambda folder: load_model(write_hub(folder, "llava"), device="cpu"),
}


@pytest.fixture(scope="module")
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Return a tiny model whose texts are their ids, since random ids are no tokens of any text."""
    checkpoint = FAMILIES[request.param](tmp_path_factory.mktemp("tiny"))
    prompt: Any = checkpoint.prompt
    words = prompt.words
    prompt.text = lambda ids: " ".join(["ids", *map(str, ids)])
    prompt.words = lambda text: tuple(map(int, text.split()[1:])) if text.startswith("ids") else words(text)
    return checkpoint


CASES = [
    *(("smolvlm", strategy) for strategy in ("refresh", "drop-middle", "sink-window", "summarize-and-drop")),
    ("proassist", "refresh"),
    ("qwen2_5_vl", "refresh"),
    ("llava", "refresh"),
]


@pytest.mark.parametrize(("checkpoint", "strategy"), CASES, indirect=["checkpoint"])
def test_the_rendered_context_is_the_one_of_the_stream(checkpoint: Checkpoint, strategy: ContextStrategy) -> None:
    size = checkpoint.model.count_tokens(next(random_frames(checkpoint, 1)).features)
    config = replace(settings(checkpoint), context_strategy=strategy, kept_tokens=25 + size, max_summary_tokens=3)
    room = {"summarize-and-drop": 40, "drop-middle": 20}.get(strategy, 0)
    config = replace(config, max_seq_len=config.max_seq_len + room)
    outputs: list[FrameOutput] = []
    for output, context in stream_contexts(checkpoint, config.frame_by_frame(), size):
        outputs.append(output)
        names = [f"{size}-{number}" for number in range(40)]
        pieces = render_run(checkpoint.prompt, TASK, outputs, config=config, pictures=names)
        rendered = [token for piece in pieces for token in [piece] * count_tokens((piece,))]
        assert rendered == [token for token in context if isinstance(token, int) or context.count(token) == size]
    assert any(output.refreshed for output in outputs)
    assert sum(output.response is not None for output in outputs) > 4
    gap = make_gap(len(outputs), fps=config.fps, before=outputs[-1], initial={})
    assert render_run(checkpoint.prompt, TASK, [*outputs, gap], config=config, pictures=[*names, "gap"]) == pieces


def stream_contexts(
    checkpoint: Checkpoint, config: StreamConfig, size: int
) -> Iterator[tuple[FrameOutput, list[ContextPiece]]]:
    """Yield each output with the tokens of the KV cache and those that wait; a picture is its frame at each token."""
    codec = checkpoint.prompt
    controller = StreamController(TASK, config=config, codec=codec, tokens_per_frame=size)
    spec = make_readout_spec(checkpoint, config)
    runner = Runner(checkpoint.model, config, features=list(random_frames(checkpoint, 40)), readout_spec=spec)
    cached: list[ContextPiece] = []

    def answer(request: object) -> Answer:
        if isinstance(request, FrameTimesRequest):
            return runner.fetch_frame_times(request)
        if isinstance(request, EvictRequest):
            runner.evict(request)
            del cached[request.head : request.num_cached - request.tail]
        if isinstance(request, ForwardRequest):
            del cached[request.num_cached :]
            for piece in request.inputs:
                cached.extend([f"{size}-{piece.frame_index}"] * size if isinstance(piece, Image) else [piece])
            return forward_batch([runner], [runner.gather_inputs(request.inputs)], [request], graph_runner=None)[0]
        return None

    loop = controller.run()
    message = next(loop)
    with suppress(StopIteration):
        while True:
            if isinstance(message, FrameOutput):
                yield message, [*cached, *controller.context.pending_ids]
            message = loop.send(answer(message))


def test_a_turn_is_question_pictures_answer() -> None:
    talk = Conversation().ask("hm?", pictures=["aa"]).answered("yes").ask("so?")
    assert render_conversation(CODEC, talk, base=(7,)) == (
        *(7, *CODEC.words("<hm?>"), "aa", RESPONSE, *CODEC.words("yes"), EOS),
        *CODEC.question("so?"),
    )


def test_an_edit_leaves_the_earlier_conversation_as_a_branch() -> None:
    talk = Conversation().ask("one", pictures=["aa"]).answered("1").ask("two").answered("2")
    assert talk.edit(0, "uno").turns == (ChatTurn(question="uno", pictures=("aa",)),)
    assert len(talk.turns) == 2
    assert talk.regenerate().turns[-1] == ChatTurn(question="two")


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Conversation().ask("  "),
        lambda: Conversation().answered("yes"),
        lambda: Conversation().ask("one").ask("two"),
    ],
)
def test_a_mistake_is_refused(mistake: object) -> None:
    assert callable(mistake)
    with pytest.raises(ValueError, match=r"empty|no open|no turn|no answer"):
        mistake()
