"""The small model of the bundled checkpoint, a randomly initialised SmolVLM of 4.5 M parameters, and its tokenizer.

A vision tower for 96 x 96 images (64 patches), a connector to 4 tokens per image, and a four-layer Llama. The tokenizer
is a byte-level BPE with separate digits: every word of the demo is one token, and any text can be encoded.
"""

from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import PreTrainedTokenizerFast, SmolVLMConfig, SmolVLMForConditionalGeneration

from stepscope.engine.model.prompt import RESPONSE_TOKEN, UPDATE_TOKEN
from stepscope.engine.model.smolvlm import StreamingModel

IMAGE_SIZE = 96
PATCH_SIZE = 12
VISION_WIDTH = 128
TEXT_WIDTH = 256
SCALE_FACTOR = 4
_SPECIAL = ["<pad>", "<eos>", UPDATE_TOKEN, RESPONSE_TOKEN, "<image>"]
_WORDS = Regex(r" ?[A-Za-z_']+| ?\d|\n+| ?[^\sA-Za-z_\d]+|\s+")
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: "
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}<eos>{% endfor %}"
)


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer trained on the texts, with at most 1,024 tokens."""
    tokenizer = Tokenizer(models.BPE())
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(_WORDS, "isolated"), as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        additional_special_tokens=[UPDATE_TOKEN, RESPONSE_TOKEN, "<image>"],
        chat_template=_CHAT_TEMPLATE,
    )


def tiny_config(tokenizer: PreTrainedTokenizerFast) -> SmolVLMConfig:
    """Return the configuration of the small model for a tokenizer."""
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    return SmolVLMConfig(
        vision_config={
            "hidden_size": VISION_WIDTH,
            "intermediate_size": 3 * VISION_WIDTH,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": IMAGE_SIZE,
            "patch_size": PATCH_SIZE,
        },
        text_config={
            "model_type": "llama",
            "hidden_size": TEXT_WIDTH,
            "intermediate_size": 3 * TEXT_WIDTH,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": TEXT_WIDTH // 4,
            "vocab_size": -(-len(tokenizer) // 8) * 8,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": True,
            "pad_token_id": pad,
            "bos_token_id": eos,
            "eos_token_id": eos,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        scale_factor=SCALE_FACTOR,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=True,
        pad_token_id=pad,
    )


def build_tiny(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> StreamingModel:
    """Return the small model with random weights.

    Standard deviations are larger than transformers' 0.02, which suits wider models. In each layer the query heads of
    the first key head start with weights equal to its key, so that a token attends to similar tokens. Without this the
    model does not learn lookups within minutes. **Source**: Trockman and Kolter 2023, mimetic initialization.
    """
    torch.manual_seed(seed)
    model = StreamingModel(SmolVLMForConditionalGeneration(tiny_config(tokenizer)))
    embeddings = model.vlm.model.vision_model.embeddings
    nn.init.normal_(embeddings.patch_embedding.weight, std=0.03)
    nn.init.normal_(embeddings.position_embedding.weight, std=0.3)
    nn.init.normal_(model.vlm.model.text_model.embed_tokens.weight, std=0.1)
    for layer in model.vlm.model.text_model.layers:
        for weight in (parameter for parameter in layer.parameters() if parameter.ndim == 2):
            nn.init.normal_(weight, std=0.05)
        attention = layer.self_attn
        heads_per_key = attention.config.num_attention_heads // attention.config.num_key_value_heads
        looks_for = torch.randn(attention.head_dim, TEXT_WIDTH) / TEXT_WIDTH**0.5
        with torch.no_grad():
            attention.k_proj.weight[: attention.head_dim] = looks_for
            attention.q_proj.weight[: heads_per_key * attention.head_dim] = looks_for.repeat(heads_per_key, 1)
    return model
