"""Models of published shapes with random weights, to measure the speed of a shape without downloading its weights.

The speak threshold is chosen so that a given fraction of the frames triggers a response. The end-of-turn token is
suppressed, so that every response has the maximum length. Sizes come from the published ``config.json``.
"""

from dataclasses import dataclass, replace

import torch
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

from engine.config import StreamConfig
from engine.control.controller import Task
from engine.inference.cuda_graphs import create_graph_pool
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.prompt import Prompt
from engine.model.smolvlm import StreamingModel
from engine.records import Step
from engine.streamer import Streamer, StreamRequest

SHAPES = {
    "SmolVLM2-2.2B": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 64,
        "vocab_size": 49280,
        "max_position_embeddings": 8192,
    },
    "tiny": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 1024,
        "max_position_embeddings": 4096,
    },
}
"""Sizes of the text models. ``tiny`` is for tests."""
_TASK = Task(
    goal="build it", steps=tuple(Step(id=f"S{number}", name=f"attach part {number}") for number in range(1, 9))
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomWorkload:
    """A random model, videos of random features, and settings whose speak threshold forces speech."""

    checkpoint: Checkpoint
    videos: tuple[StreamRequest, ...]
    config: StreamConfig


class _EndlessPrompt(Prompt):
    """A prompt that suppresses the end-of-turn token, so that texts reach their maximum length."""

    @property
    def suppress_tokens(self) -> tuple[int, ...]:
        return (*super().suppress_tokens, self.eos_id)


def random_checkpoint(shape: str, bundled: Checkpoint) -> Checkpoint:
    """Build a model of a shape with random weights, with the device and tokenizer of a bundled checkpoint."""
    torch.manual_seed(0)
    prompt = _EndlessPrompt(bundled.prompt.tokenizer)
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = SmolVLMConfig(
        text_config={**SHAPES[shape], "model_type": "llama"},
        vision_config={**vision, "image_size": 24, "patch_size": 6},  # unused: frames are encoded already
        scale_factor=2,
        image_token_id=prompt.image_id,
        tie_word_embeddings=False,
    )
    device = bundled.model.device
    with torch.device(device):
        model = StreamingModel(SmolVLMForConditionalGeneration._from_config(config, dtype=bundled.model.dtype))
    for head in (model.speaking_decision_head, model.dst_update_head):
        head.float()
    model.eval().requires_grad_(requires_grad=False)
    graphs = bundled.graphs and create_graph_pool(model)
    return replace(bundled, name=f"{shape}, random weights", model=model, prompt=prompt, graphs=graphs)


def build_random_workload(
    checkpoint: Checkpoint, *, num_videos: int, num_frames: int, trigger_ratio: float = 0.05, response_tokens: int = 50
) -> RandomWorkload:
    """Build random videos, and the speak threshold that a ``trigger_ratio`` of the first video's frames exceeds.

    The probabilities are read while the assistant stays silent. With probabilities 0.1, 0.2, 0.3, 0.4 and a
    ``trigger_ratio`` of 0.25 the rank is 3 and the threshold 0.35, which one frame of four exceeds.
    """
    videos = tuple(_random_video(checkpoint, number, num_frames) for number in range(num_videos))
    silent = StreamConfig(speak_threshold=1, update_threshold=1, max_new_tokens=response_tokens)
    outputs = list(Streamer(checkpoint, silent).run(videos[0].features, _TASK))
    probs = sorted(output.speak_prob for output in outputs)
    rank = min(round(len(probs) * (1 - trigger_ratio)), len(probs) - 1)
    config = replace(silent, speak_threshold=(probs[max(rank - 1, 0)] + probs[rank]) / 2)
    return RandomWorkload(checkpoint=checkpoint, videos=videos, config=config)


def _random_video(checkpoint: Checkpoint, number: int, num_frames: int) -> StreamRequest:
    model = checkpoint.model
    random = torch.Generator().manual_seed(number)
    shape = (num_frames, model.tokens_per_frame, model.feature_dim)
    features = torch.randn(shape, generator=random).to(model.device, model.dtype)
    frames = tuple(FrameFeatures(index=index, time_s=index / 2, features=frame) for index, frame in enumerate(features))
    return StreamRequest(video_id=f"video-{number}", features=frames, task=_TASK)
