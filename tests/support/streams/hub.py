"""Folders of tiny random image-text models, in the layout that the hub publishes."""

import atexit
import json
from functools import cache
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any, Final

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedTokenizerFast

from tests.support.streams.fakes import TEXTS
from tests.support.streams.sentencepiece import make_spaced_tokenizer

_TEXT: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
_TOWER: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "patch_size": 14,
}
_QWEN_TOWER: Final[dict[str, Any]] = {"depth": 3, "num_heads": 4, "patch_size": 14, "spatial_merge_size": 2}
_IM: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'video') %}{{ IMAGE }}{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_QWEN_TEMPLATE: Final = "{% set IMAGE = '<|vision_start|><|image_pad|><|vision_end|>' %}" + _IM
_SMOL_TEMPLATE: Final = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}{{ '<image>' }}{% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
LLAVA_TEMPLATE: Final = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{# Render all images first #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
    "{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
"""**Source**: chat_template.json of llava-hf/llava-1.5-7b-hf."""
ONEVISION_TEMPLATE: Final = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}{# Render all images first #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>' }}{% endfor %}"
    "{# Render all video then #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}{{ '<video>' }}{% endfor %}"
    "{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ '\n' + content['text'] }}"
    "{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ '\n' + content['text'] }}{% endgeneration %}{% endfor %}{% endif %}{{'<|im_end|>'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""**Source**: chat_template.json of llava-hf/llava-onevision-qwen2-0.5b-ov-hf."""
_TEMPLATES: Final = {
    "llava": LLAVA_TEMPLATE,
    "llava_onevision": ONEVISION_TEMPLATE,
    "internvl": "{% set IMAGE = '<IMG_CONTEXT>\n' %}" + _IM,
    "idefics3": _SMOL_TEMPLATE,
    "smolvlm": _SMOL_TEMPLATE,
}
_QWEN_WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen's tokenizer splits a text before it merges bytes; SmolVLM's splits as GPT-2, and single digits."""
_SPECIAL: Final = (
    "<unk>",
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<image>",
    "<video>",
    "<img>",
    "</img>",
    "<IMG_CONTEXT>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
    "yes",
    "no",
)
IMAGE_TOKENS: Final = {
    "internvl": "<IMG_CONTEXT>",
    "llava": "<image>",
    "llava_onevision": "<video>",
    "idefics3": "<image>",
    "smolvlm": "<image>",
}


def write_hub(folder: Path, model_type: str, *, seed: int = 0) -> Path:
    """Write a folder with a random model of a type."""
    return Path(copytree(_make_hub(model_type, seed), folder, dirs_exist_ok=True))


@cache  # for all tests of a process
def _make_hub(model_type: str, seed: int) -> str:
    folder = Path(mkdtemp(prefix="stepscope-hub-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    tokenizer = _make_tokenizer(model_type)
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in _SPECIAL}
    values = _config(model_type, ids, vocab_size=len(tokenizer))
    torch.manual_seed(seed)
    config = AutoConfig.for_model(model_type, **values)
    model = AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)  # so that texts and answers differ from frame to frame
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    preprocessor = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "rescale_factor": 1 / 255}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return str(folder)


def _make_tokenizer(model_type: str) -> PreTrainedTokenizerFast:
    if model_type == "llava":
        return make_spaced_tokenizer("prepend", special=_SPECIAL[1:-2], template=LLAVA_TEMPLATE)
    tokenizer = Tokenizer(models.BPE())
    is_smol = model_type in ("idefics3", "smolvlm")
    digits, qwen = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex(_QWEN_WORDS), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_smol)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits if is_smol else qwen, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(_SPECIAL[:-2]), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([*TEXTS, *["yes no Yes No"] * 20], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<end_of_utterance>" if is_smol else "<|im_end|>",
        unk_token="<unk>",
        additional_special_tokens=list(_SPECIAL[2:-2]),
        chat_template=_TEMPLATES.get(model_type, _QWEN_TEMPLATE),
    )


def _config(model_type: str, ids: dict[str, int], *, vocab_size: int) -> dict[str, Any]:
    text = {
        **_TEXT,
        "vocab_size": vocab_size,
        "bos_token_id": None,
        "pad_token_id": 1,
        "eos_token_id": ids["<|im_end|>"],
    }
    image = {"image_token_id": ids[IMAGE_TOKENS.get(model_type, "<|image_pad|>")], "tie_word_embeddings": False}
    if model_type.startswith("qwen"):
        text["rope_parameters"] = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
        tower: dict[str, Any] = {**_QWEN_TOWER, "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 32}
        if model_type == "qwen2_vl":
            tower = {**_QWEN_TOWER, "embed_dim": 32, "hidden_size": 32}
        if model_type == "qwen2_5_vl":
            tower |= {"window_size": 56, "fullatt_block_indexes": [1]}
        if model_type == "qwen3_vl":
            tower |= {"patch_size": 16, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64}
        around = {
            "vision_start_token_id": ids["<|vision_start|>"],
            "vision_end_token_id": ids["<|vision_end|>"],
            "video_token_id": ids["<|video_pad|>"],
        }
        return {"text_config": text, "vision_config": tower, **image, **around}
    if model_type == "llava":
        text["model_type"] = "llama"
        tower = {**_TOWER, "model_type": "clip_vision_model", "image_size": 28, "projection_dim": 32}
        return {"text_config": text, "vision_config": tower, **image}
    if model_type == "llava_onevision":
        text["model_type"] = "qwen2"
        tower = {**_TOWER, "model_type": "siglip_vision_model", "image_size": 70}
        both = {"image_token_id": ids["<image>"], "video_token_id": ids["<video>"], "tie_word_embeddings": False}
        return {"text_config": text, "vision_config": tower, "vision_feature_select_strategy": "full", **both}
    if model_type == "internvl":
        text["model_type"] = "qwen2"
        tower = {**_TOWER, "model_type": "internvl_vision", "image_size": [56, 56], "patch_size": [14, 14]}
        return {"text_config": text, "vision_config": tower, "downsample_ratio": 0.5, **image}
    text["model_type"] = "llama"
    return {"text_config": text, "vision_config": {**_TOWER, "image_size": 56}, "scale_factor": 2, **image}
