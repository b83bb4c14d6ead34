"""Small tokenizers of the kinds that put a space before a text, and BOS before a conversation."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.support.streams.fakes import TEXTS

Kind = Literal["prepend", "first", "always", "byte-level"]
"""Where the space comes from: a normaliser (LLaVA 1.5, Llama 2), Metaspace at the first or at every section, or
byte-level BPE with ``add_prefix_space``."""
_WORDS: Final = ("yes no Yes No USER: What? ASSISTANT: Is it done?", "user system assistant", *TEXTS)
_SPECIAL: Final = ("<unk>", "<s>", "</s>")


def make_spaced_tokenizer(
    kind: Kind, *, special: Sequence[str] = (), template: str = "", adds_bos: bool = True
) -> PreTrainedTokenizerFast:
    """Return a BPE tokenizer in which ``special`` are special tokens, behind ``<unk>``, ``<s>`` and ``</s>``."""
    tokenizer = Tokenizer.from_str(_train(kind))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in (*_SPECIAL, *special)])
    if adds_bos:
        pair = ("<s>", tokenizer.get_vocab()["<s>"])
        tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [pair])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=list(special),
        chat_template=template or None,
    )


@cache  # takes a second beside other work
def _train(kind: Kind) -> str:
    return str((_train_bytes() if kind == "byte-level" else _train_pieces(kind)).to_str())


def _train_bytes() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=list(_SPECIAL), initial_alphabet=alphabet)
    tokenizer.train_from_iterator(_WORDS * 3, trainer)
    return tokenizer


def _train_pieces(kind: Kind) -> Tokenizer:
    """Train on words with their space, then let the merges run over whole sections, with bytes for other characters."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", "▁")
    learner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    learner.train_from_iterator([f"▁{text}" for text in _WORDS * 3], trainers.BpeTrainer(vocab_size=300))
    learned = json.loads(learner.to_str())["model"]
    pieces = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *learned["vocab"]]
    vocab = {piece: number for number, piece in enumerate(piece for piece in pieces if piece != "\n")}
    merges = [(first, second) for first, second in learned["merges"] if "\n" not in first + second]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if kind == "prepend":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer
