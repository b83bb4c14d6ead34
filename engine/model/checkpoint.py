"""Loads checkpoints from a local folder or a hub id, in safetensors only.

A checkpoint is a transformers SmolVLM folder (``config.json``, ``*.safetensors``, tokenizer,
``preprocessor_config.json``) with a heads file, see ``engine.model.heads``; or an adapter of a published assistant, see
``engine.model.published.layout``. Pickles are never opened.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from stepscope.engine.config import Quantization, StreamConfig
from stepscope.engine.decisions.policies import DecisionPolicy
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.checkpoint_folder import (
    choose_dtype,
    find_base,
    find_folder,
    find_frame_pixels,
    fit_policy,
    is_without_heads,
    refuse_quantization,
)
from stepscope.engine.model.devices import name_dtype, resolve_device
from stepscope.engine.model.files.checkpoint_files import (
    SILENT_TOKEN,
    check_weights,
    find_heads,
    read_heads,
    read_trained_policy,
)
from stepscope.engine.model.files.generation import follow_generation
from stepscope.engine.model.files.hub import find_model_folder
from stepscope.engine.model.files.image_processors import read_normalization
from stepscope.engine.model.files.loading import find_silent_id, load_tokenizer, load_vlm
from stepscope.engine.model.heads import add_heads, add_tokens, embed_new_tokens
from stepscope.engine.model.hub.families import read_hub_policy
from stepscope.engine.model.hub.loading import load_hub_model
from stepscope.engine.model.hub.model import HubModel
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.model.identity import (
    ModelIdentity,
    digest_encoder,
    digest_tower,
    digest_vision,
    identify_folder,
    identify_layout,
)
from stepscope.engine.model.preprocessing import Normalization
from stepscope.engine.model.prompt import Prompt, StreamPrompt
from stepscope.engine.model.published.layout import Layout, find_family, is_published, read_layout
from stepscope.engine.model.smolvlm import Pooling, StreamingModel
from stepscope.engine.model.vision_language import VisionLanguageModel

if TYPE_CHECKING:  # made and used by the layer above
    from stepscope.engine.inference.cuda_graphs import CudaGraphPool


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A loaded model with its tokenizer, preprocessing and digests."""

    name: str
    """The folder or hub id passed to ``load_model``."""
    folder: Path
    model: VisionLanguageModel
    prompt: StreamPrompt
    normalization: Normalization
    heads: Path | None = None
    """The loaded heads file; None for random heads."""
    silent_id: int | None = None
    """The token that means silence, for the token policies."""
    trained_policy: str | None = None
    """The policy of the model's training, if its heads are missing or not trained; None for that of the heads."""
    layout: Layout | None = None
    """The parts of a published assistant; None for a SmolVLM."""
    base: Path | None = None
    """The folder of the weights that an adapter in ``folder`` changes; None if ``folder`` has its own."""
    quantize: Quantization = "none"
    """How many bits the weights of the text model of an assistant or an image-text model have in memory."""
    frame_pixels: int | None = None
    """Most pixels of a frame, for a model that takes images of any size."""
    graphs: "CudaGraphPool | None" = None

    @cached_property
    def encoder_digest(self) -> str:
        """Digest of the vision encoder's values; equal in every dtype that represents the same values."""
        if self.layout is not None:
            return digest_tower(self.layout.tower, self.model.frame_tokens)
        if isinstance(self.model, HubModel):
            return digest_vision(self.base or self.folder, self.model.frame_format)
        return digest_encoder(self.base or self.folder, self.smolvlm.vlm.config)

    @cached_property
    def identity(self) -> ModelIdentity:
        """A digest for each part that determines the outputs."""
        if self.layout is not None:
            return identify_layout(self.layout, quantize=self.quantize)
        return identify_folder(
            self.folder,
            heads=self.heads,
            base=self.base,
            quantize=self.quantize,
            frame_pixels=self.frame_pixels,
            is_hub_model=isinstance(self.model, HubModel),
        )

    @property
    def dtype_name(self) -> str:
        """The dtype of the text model, such as ``bfloat16``."""
        return name_dtype(self.model.dtype)

    @property
    def digest(self) -> str:
        """Digest of all parts: weights, heads, config, tokenizer, chat template, preprocessor."""
        return self.identity.digest

    def fit_config(self, config: StreamConfig) -> StreamConfig:
        """Return the settings of a stream with the policy of the model's training, in place of the heads'.

        Raises as ``fit_policy``.
        """
        return fit_policy(config, self.trained_policy, name=self.name)

    def token_to_read(self, policy: DecisionPolicy) -> int | None:
        """Return the token that a policy reads; None if it reads the heads, or texts behind a frame.

        Raises ``ValueError`` if the checkpoint lacks the token or the heads.
        """
        if policy.source == "heads" and not self.model.has_heads:
            of_family = f", the policy of {self.layout.family.name}" if self.layout is not None else ""
            raise ValueError(
                f"{self.name} has no decision heads; set decision_policy to {self.trained_policy}{of_family}"
            )
        if policy.source == "heads" or policy.reads_branches:
            return None
        if self.silent_id is None:
            raise ValueError(f"the policy {policy.name} needs a checkpoint that names its silent token")
        return self.silent_id

    def describe_images(self) -> str:
        """Return how images are prepared, as one line of text; equal lines mean equal preparation."""
        text, framing = self.normalization.describe(), self.model.framing
        return text if framing == "stretch" else f"{text}, {framing}"

    @property
    def smolvlm(self) -> StreamingModel:
        """The model as a SmolVLM. Raises ``CheckpointError`` for a model of a different family."""
        if not isinstance(self.model, StreamingModel):
            raise CheckpointError(f"{self.name} is no SmolVLM, which this needs")
        return self.model

    @property
    def smolvlm_prompt(self) -> Prompt:
        """The prompt of a SmolVLM. Raises ``CheckpointError`` for a model of a different family."""
        assert self.smolvlm
        assert isinstance(self.prompt, Prompt)
        return self.prompt

    @property
    def trained_prompt(self) -> Prompt | HubPrompt:
        """The prompt of a model that can be trained. Raises ``CheckpointError`` for a published assistant."""
        return self.prompt if isinstance(self.prompt, HubPrompt) else self.smolvlm_prompt


def load_checkpoint(
    path_or_id: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    heads: str | Path | None = None,
    allow_untrained_heads: bool = False,
    quantize: Quantization = "none",
    frame_pixels: int | None = None,
    pooling: Pooling | None = None,
    feature_dim: int | None = None,
) -> Checkpoint:
    """Load a checkpoint without CUDA graphs. Arguments and errors are those of ``engine.loading.load_model``.

    For training, ``pooling`` and ``feature_dim`` replace those of the heads file; a projector for features of another
    width has random weights.
    """
    target = resolve_device(device)
    folder = find_folder(path_or_id)
    pixels = find_frame_pixels(folder, frame_pixels)
    has_heads = heads is not None or allow_untrained_heads
    chosen = choose_dtype(path_or_id, dtype, target, quantize=quantize, has_heads=has_heads)
    if is_published(folder):
        if heads is not None:
            raise CheckpointError(f"{folder} is a {find_family(folder).name} checkpoint, which takes no heads file")
        return _load_published(str(path_or_id), folder, target, chosen, quantize)
    if is_without_heads(folder, has_heads=has_heads):
        if heads is not None:
            raise CheckpointError(f"{folder} is an image-text model of the hub, which takes no heads file")
        base, hub_policy = find_base(folder), read_hub_policy(folder)
        model, prompt = load_hub_model(
            base or folder,
            chosen,
            target,
            quantize=quantize,
            frame_pixels=pixels,
            adapter=folder if base is not None else None,
        )
        assert model.processor is not None
        return Checkpoint(
            name=str(path_or_id),
            folder=folder,
            model=model,
            prompt=prompt,
            normalization=model.processor.normalization,
            trained_policy=hub_policy,
            quantize=quantize,
            frame_pixels=pixels,
            base=base,
        )
    refuse_quantization(folder, quantize)
    base = find_base(folder)
    tokenizer, normalization = load_tokenizer(folder), read_normalization(folder)  # before the weights
    heads_file = find_heads(folder, heads, allow_untrained=allow_untrained_heads)
    tensors, settings = read_heads(heads_file)
    trained_policy, silent_id = read_trained_policy(settings), find_silent_id(tokenizer, settings.get(SILENT_TOKEN))
    new_tokens, rows = add_tokens(tokenizer, tensors, allow_untrained=allow_untrained_heads)
    codec = Prompt(tokenizer)
    follow_generation(codec, base or folder, needs_file=True)
    check_weights(base or folder)
    vlm = load_vlm(base or folder, chosen)
    embed_new_tokens(vlm, tokenizer, new_tokens, rows)
    if base is not None:
        from stepscope.engine.model.files.adapters import merge_adapter  # noqa: PLC0415 - peft takes seconds to import

        vlm = merge_adapter(vlm, folder)
    streaming = add_heads(vlm, tensors, settings, pooling=pooling, feature_dim=feature_dim)
    if codec.image_id != vlm.config.image_token_id:
        raise CheckpointError(
            f"{folder}: the tokenizer's <image> is not the model's image token; they belong to different models"
        )
    return Checkpoint(
        name=str(path_or_id),
        folder=folder,
        model=streaming.to(target).eval().requires_grad_(requires_grad=False),
        prompt=codec,
        normalization=normalization,
        heads=heads_file,
        silent_id=silent_id,
        trained_policy=trained_policy,
        base=base,
    )


def _load_published(
    name: str, folder: Path, device: torch.device, dtype: torch.dtype, quantize: Quantization
) -> Checkpoint:
    from stepscope.engine.model.published import loading  # noqa: PLC0415 - peft takes seconds to import

    layout = read_layout(folder, find_model_folder)
    prompt, normalization = loading.load_prompt(layout), read_normalization(layout.tower)  # before the weights
    follow_generation(prompt, layout.base, needs_file=True)
    for part in (layout.base, layout.tower):
        check_weights(part)
    model = loading.load_assistant(layout, dtype=dtype, device=device, quantize=quantize)
    return Checkpoint(
        name=name,
        folder=folder,
        model=model,
        prompt=prompt,
        normalization=normalization,
        silent_id=prompt.silent_id,
        trained_policy=None if model.has_heads else layout.family.policy,
        layout=layout,
        quantize=quantize,
    )
