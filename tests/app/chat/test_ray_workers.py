"""Workers in Ray actors: their answers, their stores as routing sees them, and lost actors."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.chat.workers import open_workers
from stepscope.engine.chat.answering import AnswerEnd, Prefilled
from stepscope.engine.chat.prompts import Conversation, render_conversation
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker, WorkerOptions, name_frames
from stepscope.engine.errors import EngineError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from tests.support.streams.fakes import random_frames

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default::FutureWarning", "default::DeprecationWarning", "default::ResourceWarning"),
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]
MAX_TOKENS = 8


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Workers of a cluster, and the checkpoint that they loaded."""

    checkpoint: Checkpoint
    workers: list[Any]


@pytest.fixture(scope="module")
def cluster(tiny_folder: Path) -> Iterator[Cluster]:
    options = {"object_store_memory": 100 * 2**20, "include_dashboard": False, "log_to_driver": False}
    ray.init(address="local", num_cpus=2, **options)
    checkpoint = load_model(tiny_folder, device="cpu")
    try:
        with open_workers("ray", checkpoint, WorkerOptions(checkpoint=str(tiny_folder))) as workers:
            yield Cluster(checkpoint=checkpoint, workers=list(workers))
    finally:
        ray.shutdown()


def make_prompt(checkpoint: Checkpoint, talk: Conversation, *, seed: int = 0) -> ChatPrompt:
    """Return the prompt of a conversation after four random frames."""
    names, features = name_frames(checkpoint.model, list(random_frames(checkpoint, 4, seed=seed)))
    codec: Any = checkpoint.prompt
    base = (*codec.system("Be brief."), *names)
    return ChatPrompt(pieces=render_conversation(codec, talk, base=base), features=features)


def ask(cluster: Cluster, prompt: ChatPrompt) -> tuple[str, int]:
    """Answer a prompt as a cold worker of this process would; return the text and the cached tokens."""
    worker = cluster.workers[0]
    wanted = worker.store.find(prompt.pieces)
    events = list(worker.answer(prompt, max_new_tokens=MAX_TOKENS))
    cold = list(ChatWorker(cluster.checkpoint).answer(prompt, max_new_tokens=MAX_TOKENS))
    prefilled, end = next(event for event in events if isinstance(event, Prefilled)), events[-1]
    assert isinstance(end, AnswerEnd)
    assert end == cold[-1]
    assert prefilled.cached_tokens == wanted, "routing sees another store than the actor has"
    assert prefilled.cached_tokens + prefilled.prefilled_tokens == prefilled.prompt_tokens
    return end.text, prefilled.cached_tokens


def test_one_worker_per_node_answers_as_a_cold_worker_of_this_process(cluster: Cluster) -> None:
    assert len(cluster.workers) == 1
    assert cluster.workers[0].name.startswith("ray 1 on ")
    first = Conversation().ask("What is next?")
    text, cached = ask(cluster, make_prompt(cluster.checkpoint, first))
    assert cached == 0
    for talk in (first, first.answered(text).ask("And then?"), first.answered(text).edit(0, "Is it done?")):
        assert ask(cluster, make_prompt(cluster.checkpoint, talk))[1] > 4
    other = make_prompt(cluster.checkpoint, first, seed=1)
    codec: Any = cluster.checkpoint.prompt
    assert ask(cluster, other)[1] == len(codec.system("Be brief.")), "other pixels share nothing after the prompt"


def test_a_lost_actor_is_replaced_before_the_next_answer(cluster: Cluster) -> None:
    prompt = make_prompt(cluster.checkpoint, Conversation().ask("What is next?"))
    ask(cluster, prompt)
    ray.kill(cluster.workers[0]._actor)
    with pytest.raises(EngineError, match="ask again"):
        list(cluster.workers[0].answer(prompt))
    assert ask(cluster, prompt)[1] >= 0
