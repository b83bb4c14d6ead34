"""Finds the files of a checkpoint, and reads its policy and identity without loading it.

transformers is not imported, which takes seconds: programs whose workers load the model do not need it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from stepscope.engine.config import Quantization, StreamConfig
from stepscope.engine.decisions.policies import POLICIES, DecisionPolicy, find_policy
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.devices import resolve_dtype
from stepscope.engine.model.files.checkpoint_files import (
    HEADS_FILE,
    find_heads,
    read_adapter_base,
    read_heads,
    read_object,
    read_trained_policy,
)
from stepscope.engine.model.files.hub import check_model_folder, download, find_model_folder
from stepscope.engine.model.files.image_processors import read_pixel_limits
from stepscope.engine.model.hub.families import (
    ANY_SIZE,
    DEFAULT_PIXELS,
    check_type,
    is_hub_model,
    read_hub_policy,
    read_training,
)
from stepscope.engine.model.identity import ModelIdentity, identify_folder, identify_layout
from stepscope.engine.model.memory import check_memory, read_stored_weights
from stepscope.engine.model.published.layout import find_family, is_published, read_layout

UNTRAINED_SILENCE: Final = (
    "0 decisions: the model was not trained for its signals, and the thresholds do not fit it; find its own with "
    "stepscope sweep on labelled videos, or lower them"
)


def find_policy_of(path_or_id: str | Path, *, heads: str | Path | None = None) -> str | None:
    """Return ``Checkpoint.trained_policy`` without loading the checkpoint.

    Raises ``CheckpointError`` if the checkpoint cannot be found.
    """
    folder = find_folder(path_or_id)
    if is_without_heads(folder, has_heads=heads is not None):
        return read_hub_policy(folder)
    if not is_published(folder):
        return read_trained_policy(read_heads(find_heads(folder, heads, allow_untrained=True))[1])
    if read_object(folder / "config.json").get("use_binary_decision_head"):
        return None
    return find_family(folder).policy


def fit_policy(config: StreamConfig, trained: str | None, *, name: str) -> StreamConfig:
    """Return the settings with the policy of a model's training, in place of the heads' that is the default.

    Raises ``ValueError`` for another policy of heads, if the model has none that are trained.
    """
    if trained is None or config.policy.source != "heads":
        return config
    if config.decision_policy != "heads":
        raise ValueError(_describe_policies(config.decision_policy, trained, name=name))
    return replace(config, decision_policy=trained)


def check_heads(path_or_id: str | Path, *, heads: str | Path | None = None) -> None:
    """Raise ``ValueError`` if a checkpoint has no trained decision heads, which the policy ``heads`` reads."""
    trained = find_policy_of(path_or_id, heads=heads)
    if trained is not None:
        raise ValueError(_describe_policies("heads", trained, name=path_or_id))


def _describe_policies(chosen: str, trained: str, *, name: str | Path) -> str:
    reads_texts = POLICIES[trained].reads_branches
    others = [p.name for p in POLICIES.values() if p.source not in ("heads", "signal")]
    found = [other for other in others if POLICIES[other].reads_branches == reads_texts]
    return f"decision_policy {chosen} reads trained decision heads, which {name} lacks; choose {', '.join(found)}"


def has_untrained_signals(folder: Path, policy: DecisionPolicy) -> bool:
    """Return whether a policy reads answers of a model that was not trained for them, as far as its folder says."""
    if policy.source != "answer" or is_published(folder):
        return False
    if is_without_heads(folder, has_heads=False):
        named = read_training(folder)
    else:
        named = read_trained_policy(read_heads(find_heads(folder, None, allow_untrained=True))[1])
    return named is None or find_policy(named).source != policy.source


def identify_model(
    path_or_id: str | Path,
    *,
    heads: str | Path | None = None,
    quantize: Quantization = "none",
    frame_pixels: int | None = None,
) -> ModelIdentity:
    """Return the identity of a checkpoint without loading it. Raises as ``load_checkpoint`` does."""
    folder = find_folder(path_or_id)
    pixels = find_frame_pixels(folder, frame_pixels)
    if is_published(folder):
        return identify_layout(read_layout(folder, find_model_folder), quantize=quantize)
    if is_without_heads(folder, has_heads=heads is not None):
        base = find_base(folder)
        return identify_folder(folder, heads=None, base=base, quantize=quantize, frame_pixels=pixels, is_hub_model=True)
    refuse_quantization(folder, quantize)
    return identify_folder(folder, heads=find_heads(folder, heads, allow_untrained=False), base=find_base(folder))


def is_without_heads(folder: Path, *, has_heads: bool) -> bool:
    """Return whether a folder holds an image-text model of the hub, or an adapter of one; see ``is_hub_model``."""
    has_heads = has_heads or (folder / HEADS_FILE).is_file()
    if is_published(folder):  # its adapter changes a Llama, which need not be at hand
        return False
    return is_hub_model(folder if has_heads else find_base(folder) or folder, has_heads=has_heads)


def refuse_quantization(folder: Path, quantize: Quantization) -> None:
    """Raise ``CheckpointError`` if a SmolVLM should be loaded with fewer bits."""
    if quantize != "none":
        raise CheckpointError(
            f"--quantize {quantize} is for Llama assistants and image-text models; {folder} has heads of its own"
        )


def find_frame_pixels(folder: Path, frame_pixels: int | None = None) -> int | None:
    """Return the most pixels of a frame; None for a model that takes images of one size.

    By default they are ``DEFAULT_PIXELS``, or a quarter more than the fewest that the image processor makes: frames of
    common aspects, rounded down to whole tokens, still have as many. Raises ``CheckpointError`` if a model that takes
    one size should take frames of ``frame_pixels``.
    """
    if read_object(folder / "config.json").get("model_type") in ANY_SIZE:
        if frame_pixels is not None:
            return frame_pixels
        fewest, most = read_pixel_limits(folder)
        return int(min(max(DEFAULT_PIXELS, fewest * 5 // 4), most))
    if frame_pixels is not None:
        raise CheckpointError(
            f"--frame-pixels, or frame_pixels of a preset, is for {', '.join(ANY_SIZE)}; {folder} takes frames of the "
            "one size of its vision tower; leave it out, or copy the preset to a file without it"
        )
    return None


def find_folder(path_or_id: str | Path) -> Path:
    """Return the folder of a checkpoint, downloaded if need be."""
    folder = download(path_or_id)
    if is_published(folder):
        return folder
    if (folder / "config.json").is_file():  # nobody should fetch weights of a type that is refused
        check_type(read_object(folder / "config.json").get("model_type"))
    return check_model_folder(folder)


def find_weights(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the weights that a checkpoint loads, without adapters; that of the text model first."""
    if not is_published(folder):
        return (find_base(folder) or folder,)
    layout = read_layout(folder, find_model_folder)
    return layout.base, layout.tower


def choose_dtype(
    path_or_id: str | Path,
    dtype: str,
    device: torch.device,
    *,
    quantize: Quantization = "none",
    has_heads: bool = False,
    num_copies: int = 1,
) -> torch.dtype:
    """Return the dtype that a checkpoint gets on a device; see ``resolve_dtype``.

    Raises ``CheckpointError`` if the free memory does not hold ``num_copies`` of it.
    """
    folder = find_folder(path_or_id)
    try:
        weights = read_stored_weights(find_weights(folder))
    except CheckpointError:  # the loader names it, after the small files
        return resolve_dtype(dtype, device, stored="")
    chosen = resolve_dtype(dtype, device, stored=weights.dtype)
    check_memory(
        str(path_or_id),
        weights,
        dtype=chosen,
        device=device,
        quantize=quantize,
        quantizes=is_published(folder) or is_without_heads(folder, has_heads=has_heads),
        num_copies=num_copies,
    )
    return chosen


def find_base(folder: Path) -> Path | None:
    """Return the folder with the weights that an adapter changes; None for a folder with its own."""
    base = read_adapter_base(folder)
    if base is None:
        return None
    try:
        found = find_folder(base)
    except CheckpointError as error:
        raise CheckpointError(f"the base of the adapter {folder} is missing: {error}") from error
    if read_adapter_base(found) is not None:
        raise CheckpointError(f"the base of the adapter {folder} is itself an adapter, {found}; merge that first")
    return found
