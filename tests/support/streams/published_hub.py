"""Folders of tiny random image-text models with the files of the published checkpoints, each in its own form.

**Source**: the files of the repositories on the hub: where the chat template is, which file has the image settings, the
class of the tokenizer, the end tokens, the key of the dtype, the shards; sizes are those of the tiny models.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerFast

from tests.support.streams.fakes import TEXTS
from tests.support.streams.hub import _TEMPLATES, write_hub

_CLIP: Final = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
_HALF: Final = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_QWEN_PATCHES: Final = {"temporal_patch_size": 2, "merge_size": 2}
_STEPS: Final = {"do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True}
_SCALE: Final = {**_STEPS, "rescale_factor": 0.00392156862745098}
_SPLIT: Final = {"do_image_splitting": True, "do_pad": True, "resample": 1, "size": {"longest_edge": 224}}
_PREPROCESSORS: Final[dict[str, dict[str, Any]]] = {
    "qwen2_vl": {
        **{"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, **_QWEN_PATCHES, **_CLIP},
        **{"image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"},
    },
    "qwen2_5_vl": {
        **{"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, **_QWEN_PATCHES, **_CLIP},
        **{"image_processor_type": "Qwen2_5_VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor"},
    },
    "qwen3_vl": {
        **{"size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16, **_QWEN_PATCHES, **_HALF},
        **{"image_processor_type": "Qwen2VLImageProcessorFast", "processor_class": "Qwen3VLProcessor"},
    },
    "llava": {
        **{"crop_size": {"height": 28, "width": 28}, "size": {"shortest_edge": 28}, "do_center_crop": True},
        **{**_SCALE, **_CLIP, "resample": 3, "image_processor_type": "CLIPImageProcessor"},
    },
    "llava_onevision": {
        **{"image_grid_pinpoints": [[70, 70], [70, 140], [140, 70]], "size": {"height": 70, "width": 70}},
        **{**_SCALE, **_HALF, "do_pad": True, "resample": 3, "image_processor_type": "LlavaOnevisionImageProcessor"},
    },
    "internvl": {
        **{"crop_to_patches": False, "size": {"height": 56, "width": 56}, "crop_size": None, "do_center_crop": None},
        **{**_SCALE, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3},
        **{"max_patches": 12, "min_patches": 1, "image_processor_type": "GotOcr2ImageProcessorFast"},
    },
    "idefics3": {
        **{**_SCALE, **_HALF, **_SPLIT, "max_image_size": {"longest_edge": 56}},
        **{"image_processor_type": "Idefics3ImageProcessor", "processor_class": "Idefics3Processor"},
    },
    "smolvlm": {
        **{**_SCALE, **_HALF, **_SPLIT, "max_image_size": {"longest_edge": 56}},
        **{"image_processor_type": "SmolVLMImageProcessor", "processor_class": "SmolVLMProcessor"},
    },
}
_PROCESSORS: Final[dict[str, dict[str, Any]]] = {
    "llava": {
        **{"image_token": "<image>", "num_additional_image_tokens": 1, "patch_size": 14},
        **{"processor_class": "LlavaProcessor", "vision_feature_select_strategy": "default"},
    },
    "llava_onevision": {
        **{"image_token": "<image>", "num_image_tokens": 25, "processor_class": "LlavaOnevisionProcessor"},
        **{"video_token": "<video>", "vision_feature_select_strategy": "full"},
    },
    "internvl": {"image_seq_length": 4, "processor_class": "InternVLProcessor"},
    "idefics3": {"image_seq_len": 4, "processor_class": "Idefics3Processor"},
    "smolvlm": {"image_seq_len": 4, "processor_class": "SmolVLMProcessor"},
}
"""Those without one are by their published folder alone: Qwen's."""
_TEXT_ONLY: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_QWEN_ENDS: Final = ("<|im_end|>", "<|endoftext|>")
_ENDS: Final[dict[str, Sequence[str]]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), _QWEN_ENDS),
    "idefics3": ["<|endoftext|>", "<end_of_utterance>"],
    "llava": ["</s>"],
    "smolvlm": ["<end_of_utterance>"],
}
_DTYPES: Final = {"llava": torch.float16, "llava_onevision": torch.float16, "smolvlm": torch.float32}
_TOKENIZERS: Final = {
    **dict.fromkeys(("idefics3",), "PreTrainedTokenizerFast"),
    "llava": "LlamaTokenizer",
    "smolvlm": "GPT2Tokenizer",
}


def write_published_hub(folder: Path, model_type: str, *, is_v5: bool = False) -> Path:
    """Write a folder in the form of the published checkpoint of a type; ``is_v5`` as transformers 5 saves it."""
    write_hub(folder, model_type)
    if model_type == "llava":
        _write_sentencepiece(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder).to(_DTYPES.get(model_type, torch.bfloat16))
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="150KB")
    assert (folder / "model.safetensors.index.json").is_file()
    _write_config(folder, model_type)
    _write_tokenizer(folder, model_type)
    image, processor = _PREPROCESSORS[model_type], _PROCESSORS.get(model_type)
    (folder / "preprocessor_config.json").unlink()
    if is_v5:
        _write(folder / "processor_config.json", {**(processor or {}), "image_processor": image})
    else:
        _write(folder / "preprocessor_config.json", image)
        if processor:
            _write(folder / "processor_config.json", processor)
    return folder


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2))


def _write_config(folder: Path, model_type: str) -> None:
    """Write the configuration with the keys of its time, and the generation settings."""
    config = _read(folder / "config.json")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    dtype = config.pop("dtype", None) or "bfloat16"
    for part in ("text_config", "vision_config"):
        config[part].pop("dtype", None)
    if model_type == "qwen3_vl":
        config["text_config"]["dtype"] = dtype
    else:
        config["torch_dtype"] = dtype
    if model_type in ("qwen2_vl", "qwen2_5_vl"):  # their text model has no part of its own
        text = config.pop("text_config")
        rope = text.pop("rope_parameters")
        text["rope_theta"] = rope["rope_theta"]
        text["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
        config = {**{name: value for name, value in text.items() if name != "model_type"}, **config}
    if model_type.startswith("llava"):
        for kind in ("image", "video"):
            if f"{kind}_token_id" in config:
                config[f"{kind}_token_index"] = config.pop(f"{kind}_token_id")
    _write(folder / "config.json", config)
    ends = [int(tokenizer.convert_tokens_to_ids(token)) for token in _ENDS.get(model_type, ["<|im_end|>"])]
    generation: dict[str, Any] = {"eos_token_id": ends if len(ends) > 1 else ends[0], "pad_token_id": 1}
    if model_type.startswith("qwen"):
        generation |= {"do_sample": True, "temperature": 1e-06}
    if model_type == "qwen2_5_vl":
        generation["repetition_penalty"] = 1.05
    if model_type in ("smolvlm", "idefics3"):
        generation["bad_words_ids"] = [[int(tokenizer.convert_tokens_to_ids("<image>"))]]
    _write(folder / "generation_config.json", generation)


def _write_tokenizer(folder: Path, model_type: str) -> None:
    """Write the settings of the tokenizer, and the chat template where the published folder has it."""
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    config = _read(path)
    config["tokenizer_class"] = _TOKENIZERS.get(model_type, "Qwen2Tokenizer")
    if model_type in ("qwen2_5_vl", "llava_onevision"):
        config["chat_template"] = _TEXT_ONLY
    elif model_type in ("qwen2_vl", "qwen3_vl", "smolvlm"):
        config["chat_template"] = template
    if model_type == "internvl":
        extra = {"context_image_token": "<IMG_CONTEXT>", "start_image_token": "<img>", "end_image_token": "</img>"}
        config |= {**extra, "video_token": "<video>", "extra_special_tokens": {**extra, "video_token": "<video>"}}
        (folder / "chat_template.jinja").write_text(template)
    elif model_type != "internvl":
        _write(folder / "chat_template.json", {"chat_template": template})
    _write(path, config)


def _write_sentencepiece(folder: Path) -> None:
    """Replace the tokenizer by one as SentencePiece makes: a space before each text, bytes, and a ``<s>``."""
    special = ["<unk>", "<s>", "</s>", "<image>", "<pad>"]
    tokens = [*special, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # a token begins with a space, and has no other
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=tokens)
    texts = [*TEXTS, *["yes", "no", "Yes", "No", "USER:", "ASSISTANT:"] * 20]
    tokenizer.train_from_iterator(texts, trainer)
    content = json.loads(tokenizer.to_str())
    content["pre_tokenizer"] = None
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        chat_template=_TEMPLATES["llava"],
    )
    fast.save_pretrained(folder)
    settings = _read(folder / "tokenizer_config.json")
    _write(folder / "tokenizer_config.json", {**settings, "add_bos_token": True, "legacy": False})
    config = _read(folder / "config.json")
    _write(folder / "config.json", {**config, "image_token_id": fast.convert_tokens_to_ids("<image>")})
