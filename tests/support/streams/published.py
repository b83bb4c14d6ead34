"""Tiny random checkpoints in the layouts of the published assistants, key for key; written without PEFT."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, SiglipConfig, SiglipModel
from transformers.utils import logging as transformers_logging

WIDTH, TOWER_WIDTH, RANK, LAYERS = 32, 16, 4, 2
SPECIAL: Final = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_TEXTS: Final = (
    "A multimodal AI assistant is helping users. ]\nAssistant: User: What is next? [,",
    "system user assistant",
)
_PROJECTIONS: Final = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}
_TARGETS: Final = r"model.*(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)|lm_head$"


def write_online(
    folder: Path,
    *,
    grid: int = 3,
    seed: int = 0,
    terse: bool = False,
    **parts: Any,
) -> Path:
    """Write a checkpoint of VideoLLM-online with its base model and tower."""
    write_parts(folder, seed=seed, terse=terse, **parts)
    if grid != 3:
        config: dict[str, Any] = {"frame_token_cls": True, "frame_token_pooled": [grid, grid] if grid else None}
        config |= {"frame_num_tokens": 1 + grid**2, "frame_token_interval": "," if grid else ""}
        (folder / "config.json").write_text(json.dumps(config))
    _write_adapter(folder, connector="connector", seed=seed + 1)
    return folder


def write_proassist(
    folder: Path, *, grid: int = 0, adapters: int = 1, head: str = "", seed: int = 0, terse: bool = False
) -> Path:
    """Write a checkpoint of ProAssist; all adapters but the last are in ``adapter_0``, ``adapter_1``, ..."""
    write_parts(folder, seed=seed, terse=terse)
    config = {"model_type": "llama", "img_patch_token_size": grid, "img_sep_token": "none", "use_img_cls_token": True}
    config |= {"use_binary_decision_head": bool(head), "binary_decision_head_type": head or "linear"}
    (folder / "config.json").write_text(json.dumps(config))
    for number in range(adapters):
        path = folder if number == adapters - 1 else folder / f"adapter_{number}"
        _write_adapter(path, connector="mm_projector", seed=seed + 1 + number, head=head)
    return folder


def write_parts(folder: Path, *, seed: int, terse: bool = False, tower_width: int = TOWER_WIDTH) -> None:
    """Write ``base_model`` and ``vision_tower``; a terse model ends its texts after a few words."""
    transformers_logging.disable_progress_bar()
    torch.manual_seed(seed)
    tokenizer = train_llama_tokenizer()
    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
        initializer_range=0.3,
    )
    llama = LlamaForCausalLM(config)
    if terse:
        with torch.no_grad():
            for token in ("<|eot_id|>", ","):
                llama.lm_head.weight[tokenizer.convert_tokens_to_ids(token)] *= 3
    llama.save_pretrained(folder / "base_model")
    tokenizer.save_pretrained(folder / "base_model")
    sizes = {"intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**sizes, "hidden_size": tower_width, "image_size": 24, "patch_size": 6}
    text = {**sizes, "hidden_size": 16, "vocab_size": 20, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    SiglipModel(SiglipConfig(vision_config=vision, text_config=text)).save_pretrained(folder / "vision_tower")
    preprocessing = {"rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "vision_tower" / "preprocessor_config.json").write_text(json.dumps(preprocessing))


def train_llama_tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with the special tokens of Llama 3."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[-1],
        additional_special_tokens=list(SPECIAL[:-1]),
    )


def _write_adapter(folder: Path, *, connector: str, seed: int, head: str = "") -> None:
    """Write an adapter as PEFT saves it: LoRA of all projections and of the output, and the whole connector."""
    folder.mkdir(exist_ok=True)
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random) * 0.2

    sizes = {"q_proj": (WIDTH, WIDTH), "k_proj": (WIDTH // 2, WIDTH), "v_proj": (WIDTH // 2, WIDTH)}
    sizes |= {"o_proj": (WIDTH, WIDTH), "gate_proj": (2 * WIDTH, WIDTH), "up_proj": (2 * WIDTH, WIDTH)}
    sizes |= {"down_proj": (WIDTH, 2 * WIDTH)}
    tensors: dict[str, Tensor] = {}
    lora = [("lm_head", (len(train_llama_tokenizer()), WIDTH))]
    lora += [
        (f"model.layers.{layer}.{part}.{name}", sizes[name])
        for layer in range(LAYERS)
        for part, names in _PROJECTIONS.items()
        for name in names
    ]
    for name, (width_out, width_in) in lora:
        tensors[f"base_model.model.{name}.lora_A.weight"] = draw(RANK, width_in)
        tensors[f"base_model.model.{name}.lora_B.weight"] = draw(width_out, RANK)
    modules = {f"{connector}.0": (WIDTH, TOWER_WIDTH), f"{connector}.2": (WIDTH, WIDTH)}
    if head:
        halves = {"binary_decision_head.0": (WIDTH // 2, WIDTH), "binary_decision_head.2": (1, WIDTH // 2)}
        modules |= {"binary_decision_head": (1, WIDTH)} if head == "linear" else halves
    for name, size in modules.items():
        tensors[f"base_model.model.{name}.weight"] = draw(*size)
        tensors[f"base_model.model.{name}.bias"] = draw(size[0])
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.05}
    saved = [connector, *(["binary_decision_head"] if head else [])]
    settings |= {"target_modules": _TARGETS, "modules_to_save": saved, "inference_mode": True, "bias": "none"}
    settings |= {"base_model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))


def rename_tensors(folder: Path, names: Iterable[tuple[str, str]]) -> None:
    """Replace parts of the names of an adapter's tensors."""

    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    for old, new in names:
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    save_file(tensors, path)
