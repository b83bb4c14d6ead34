"""The published way to stream VideoLLM-online and ProAssist, and the settings of tiny models of all families."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.records import UserTurn
from stepscope.engine.stream import Streamer
from tests.support.streams.fakes import STEPS, random_frames
from tests.support.streams.published import TOWER_WIDTH, WIDTH

ASKED = (UserTurn(time_s=3.2, text="What is next?"), UserTurn(time_s=9.4, text="And <|eot_id|> now?"))
TASK = Task(goal="build the toy truck", steps=STEPS, user_turns=ASKED)
NUM_FRAMES = 28


def settings(checkpoint: Checkpoint, *, share: float = 0.3) -> StreamConfig:
    """Return settings with refreshes, at which about a share of the frames speaks where the probability decides."""
    prompt = checkpoint.prompt.schema(goal=TASK.goal, steps=STEPS, state={"S1": "in_progress", "S2": "not_started"})
    room = len(prompt) + 60 + 10 * checkpoint.model.count_tokens(next(random_frames(checkpoint, 1)).features)
    config = StreamConfig(
        max_new_tokens=7,
        max_update_tokens=5,
        max_seq_len=room + 60,
        reserved_seq_len=60,
        update_threshold=0.9,
        theta_step=-0.002,
        states="silence=no, standby=</Standby>, response=</Response>",
    )
    config = checkpoint.fit_config(config)
    silent = Streamer(checkpoint, replace(config, speak_threshold=1)).run(random_frames(checkpoint, NUM_FRAMES), TASK)
    probs = sorted(output.speak_prob for output in silent if output.speak_prob < 1)
    rank = int(len(probs) * (1 - share))
    low, threshold, high = 0.0, (probs[rank - 1] + probs[rank]) / 2, 1.0
    while True:  # where speaking changes the probabilities that follow, the share is far off
        config = replace(config, speak_threshold=threshold)
        outputs = Streamer(checkpoint, config).run(random_frames(checkpoint, NUM_FRAMES), TASK)
        num_spoken = sum(output.response is not None for output in outputs)
        if share > 0.5 or 3 < num_spoken < NUM_FRAMES - 3:
            return config
        low, high = (threshold, high) if num_spoken > 3 else (low, threshold)
        threshold = (low + high) / 2


class PublishedLoop:
    """The published way to stream, on plain transformers and PEFT without merge or cache; all inputs run each time."""

    def __init__(self, folder: Path, connector: str) -> None:
        llama: Any = LlamaForCausalLM.from_pretrained(folder / "base_model", dtype=torch.float32)
        mlp = nn.Sequential(nn.Linear(TOWER_WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        llama.add_module(connector, mlp)
        llama.set_attn_implementation("eager")
        self.model: Any = PeftModel.from_pretrained(llama, folder).eval()
        self.connector = self.model.get_submodule(f"base_model.model.{connector}")
        self.inputs = torch.zeros(0, WIDTH)

    @torch.no_grad()
    def feed(self, ids: tuple[int, ...] = (), frame: Tensor | None = None) -> Tensor:
        """Append tokens, then a frame ``[I, F]``; return the logits of the next token ``[V]``."""
        parts = [self.inputs, self.model.get_input_embeddings()(torch.tensor(ids, dtype=torch.long))]
        parts += [] if frame is None else [self.connector(frame)]
        self.inputs = torch.cat(parts)
        logits: Tensor = self.model(inputs_embeds=self.inputs[None]).logits[0, -1]
        return logits.clone()

    @torch.no_grad()
    def hidden(self) -> Tensor:
        states: Tensor = self.model(inputs_embeds=self.inputs[None], output_hidden_states=True).hidden_states[-1][0]
        return states
