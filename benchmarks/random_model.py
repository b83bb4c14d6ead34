"""Models of published shapes with random weights, to measure the speed of a shape without downloading its weights.

Responses are triggered by a speak threshold, chosen for a fraction of the frames, or by questions. The end-of-turn
token is suppressed, so that every response has the maximum length. Sizes come from the published ``config.json``.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    SiglipVisionConfig,
    SiglipVisionModel,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
)

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.inference.cuda_graphs import create_graph_pool
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.devices import use_onednn
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.hub.families import DEFAULT_PIXELS
from stepscope.engine.model.hub.images import read_format
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.model.published.model import LlamaAssistant
from stepscope.engine.model.smolvlm import StreamingModel
from stepscope.engine.model.vision_language import VisionLanguageModel
from stepscope.engine.records import Step, UserTurn
from stepscope.engine.stream import Streamer, StreamRequest

_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "vocab_size", "max_position_embeddings"),
)
SHAPES = {
    name: dict(zip(_SIZES, sizes, strict=True))
    for name, sizes in {
        "SmolVLM2-256M": (576, 1536, 30, 9, 3, 64, 49280, 8192),
        "SmolVLM2-500M": (960, 2560, 32, 15, 5, 64, 49280, 8192),
        "SmolVLM2-2.2B": (2048, 8192, 24, 32, 32, 64, 49280, 8192),
        "Llama-3-8B-10": (4096, 14336, 32, 32, 8, 128, 128256, 8192),
        "Qwen2.5-VL-3B": (2048, 11008, 36, 16, 2, 128, 151936, 32768),
        "tiny-VL": (32, 64, 2, 4, 2, 8, 1024, 8192),
        "tiny-10": (32, 64, 2, 4, 2, 8, 1024, 8192),
        "tiny": (32, 64, 2, 4, 2, 8, 1024, 4096),
    }.items()
}
"""Sizes of the text models. With ``-10`` it is VideoLLM-online's family: 10 tokens per frame, frames joined by a
separator, and a silent token that decides. With ``VL`` it is Qwen2.5-VL's: 64 tokens per frame, and questions decide.
The tiny ones are for tests and for CPUs."""
_TASK = Task(
    goal="build it", steps=tuple(Step(id=f"S{number}", name=f"attach part {number}") for number in range(1, 9))
)


_SIDE = 8
"""Rows and columns of tokens of a frame of any size."""
_IM_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' }}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ IMAGE }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}{{ END + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RandomWorkload:
    """A random model, videos of random features, and settings with which it speaks."""

    checkpoint: Checkpoint
    videos: tuple[StreamRequest, ...]
    config: StreamConfig


class _SilentTokenPrompt(Prompt):
    """The layout of VideoLLM-online with the tokens of another tokenizer: frames are joined by the silent token."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(tokenizer)
        self.silent_id = self.words(",")[0]
        self.frame_separator, self.stream_opening = (self.silent_id,), self.words("[")
        self.response_opening, self.update_opening = self.words("] Assistant:"), ()


def random_checkpoint(shape: str, bundled: Checkpoint) -> Checkpoint:
    """Build a model of a shape with random weights, with the device and tokenizer of a bundled checkpoint.

    Its texts reach their maximum length: the end of a turn is suppressed.
    """
    torch.manual_seed(0)
    device, dtype, tokenizer = bundled.model.device, bundled.model.dtype, bundled.prompt.tokenizer
    prompt, silent_id = Prompt(tokenizer), bundled.silent_id
    name = f"{shape}, random weights"
    if "VL" in shape.split("-"):
        hub, hub_prompt = _make_hub(SHAPES[shape], tokenizer, prompt.image_id, device, dtype)
        hub_prompt.suppress_tokens += (hub_prompt.eos_id,)
        graphs = bundled.graphs and create_graph_pool(hub)
        return replace(
            bundled, name=name, model=hub, prompt=hub_prompt, trained_policy="answer", silent_id=None, graphs=graphs
        )
    if shape.endswith("-10"):
        prompt = silent = _SilentTokenPrompt(tokenizer)
        silent_id, model = silent.silent_id, _make_assistant(SHAPES[shape], device, dtype)
    else:
        model = _make_smolvlm(SHAPES[shape], prompt.image_id, device, dtype)
    prompt.suppress_tokens += (prompt.eos_id,)
    model.eval().requires_grad_(requires_grad=False)
    use_onednn(model)
    graphs = bundled.graphs and create_graph_pool(model)
    return replace(bundled, name=name, model=model, prompt=prompt, silent_id=silent_id, graphs=graphs)


def _make_smolvlm(
    sizes: Mapping[str, int], image_id: int, device: torch.device, dtype: torch.dtype
) -> VisionLanguageModel:
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = SmolVLMConfig(
        text_config={**sizes, "model_type": "llama"},
        vision_config={**vision, "image_size": 24, "patch_size": 6},  # unused: frames are encoded already
        scale_factor=2,
        image_token_id=image_id,
        tie_word_embeddings=False,
    )
    with torch.device(device):
        model = StreamingModel(SmolVLMForConditionalGeneration._from_config(config, dtype=dtype))
    for head in (model.speaking_decision_head, model.dst_update_head):
        head.float()
    return model


def _make_assistant(sizes: Mapping[str, int], device: torch.device, dtype: torch.dtype) -> VisionLanguageModel:
    """Build a Llama with a connector for VideoLLM-online's frames: 10 tokens of width 1,024."""
    sizes_of_tower = {"hidden_size": 1024, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = SiglipVisionConfig(**sizes_of_tower, image_size=24, patch_size=6)  # unused: frames are encoded already
    width = sizes["hidden_size"]
    with torch.device(device):
        llama = LlamaForCausalLM._from_config(LlamaConfig(**sizes, tie_word_embeddings=False), dtype=dtype)
        connector = nn.Sequential(nn.Linear(1024, width), nn.GELU(), nn.Linear(width, width)).to(dtype)
        return LlamaAssistant(llama, SiglipVisionModel(vision), connector, grid_size=3, framing="pad")


def _make_hub(
    sizes: Mapping[str, int],
    tokenizer: PreTrainedTokenizerBase,
    image_id: int,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[HubModel, HubPrompt]:
    """Build a Qwen2.5-VL with a tiny tower, and its prompt with another model's tokens."""
    half = sizes["hidden_size"] // sizes["num_attention_heads"] // 2
    sections = [half // 4, (half - half // 4) // 2]  # as published: 16, 24 and 24 of 64
    rope = {"rope_type": "default", "mrope_section": [*sections, half - sum(sections)], "rope_theta": 1e6}
    tower = {"depth": 1, "num_heads": 2, "hidden_size": 32, "intermediate_size": 64, "fullatt_block_indexes": [0]}
    config = Qwen2_5_VLConfig(
        text_config={**sizes, "rope_parameters": rope},
        vision_config={**tower, "out_hidden_size": sizes["hidden_size"], "window_size": 112},
        image_token_id=image_id,
        tie_word_embeddings=False,
    )
    spoken = copy(tokenizer)
    image = str(tokenizer.convert_ids_to_tokens(image_id))
    spoken.chat_template = _IM_TEMPLATE.replace("IMAGE", f"'{image}'").replace("END", f"'{tokenizer.eos_token}'")
    frame_format = read_format(config, DEFAULT_PIXELS)
    prompt = HubPrompt(spoken, image_id=image_id, frame_format=frame_format)
    with torch.device(device):
        vlm = Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=dtype)
    vlm = vlm.eval().requires_grad_(requires_grad=False)
    return HubModel(vlm, frame_format=frame_format, opening=prompt.opening, closing=prompt.closing), prompt


def build_random_workload(
    checkpoint: Checkpoint, *, num_videos: int, num_frames: int, trigger_ratio: float = 0.05, response_tokens: int = 50
) -> RandomWorkload:
    """Build random videos, and the speak threshold that a ``trigger_ratio`` of the first video's frames exceeds.

    The probabilities are read while the assistant stays silent. With probabilities 0.1, 0.2, 0.3, 0.4 and a
    ``trigger_ratio`` of 0.25 the rank is 3 and the threshold 0.35, which one frame of four exceeds.
    """
    videos = tuple(_random_video(checkpoint, number, num_frames) for number in range(num_videos))
    policy = "heads" if checkpoint.model.has_heads else checkpoint.trained_policy or "silent-token"
    silent = StreamConfig(speak_threshold=1, update_threshold=1, max_new_tokens=response_tokens, decision_policy=policy)
    outputs = list(Streamer(checkpoint, silent).run(videos[0].features, _TASK))
    probs = sorted(output.speak_prob for output in outputs)
    rank = min(round(len(probs) * (1 - trigger_ratio)), len(probs) - 1)
    config = replace(silent, speak_threshold=(probs[max(rank - 1, 0)] + probs[rank]) / 2)
    return RandomWorkload(checkpoint=checkpoint, videos=videos, config=config)


def build_asked_workload(
    checkpoint: Checkpoint, *, num_videos: int, num_frames: int, every: int = 20, response_tokens: int = 50
) -> RandomWorkload:
    """Build random videos with a question every ``every`` frames, and settings at which nothing else is written.

    So every shape writes as much, in every dtype and mode. A threshold does not give that: what a random model has
    written moves its later probabilities, so that its share of answered frames differs from shape to shape.
    """
    policy = "heads" if checkpoint.model.has_heads else checkpoint.trained_policy or "silent-token"
    config = StreamConfig(speak_threshold=1, update_threshold=1, max_new_tokens=response_tokens, decision_policy=policy)
    asked = replace(_TASK, questions=tuple(UserTurn(time_s=at / 2, text="now?") for at in range(5, num_frames, every)))
    videos = tuple(replace(_random_video(checkpoint, n, num_frames), task=asked) for n in range(num_videos))
    return RandomWorkload(checkpoint=checkpoint, videos=videos, config=config)


def _random_video(checkpoint: Checkpoint, number: int, num_frames: int) -> StreamRequest:
    model = checkpoint.model
    random = torch.Generator().manual_seed(number)
    shape = (num_frames, *(_SIDE if size is None else size for size in model.feature_shape))
    features = torch.randn(shape, generator=random).to(model.device, model.dtype)
    frames = tuple(FrameFeatures(index=index, time_s=index / 2, features=frame) for index, frame in enumerate(features))
    return StreamRequest(video_id=f"video-{number}", features=frames, task=_TASK)
