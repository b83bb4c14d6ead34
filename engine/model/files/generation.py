"""Makes a prompt follow the generation settings of a checkpoint folder."""

import re
import warnings
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig, GenerationConfig

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import GENERATION_FILE, read_object
from stepscope.engine.model.prompt import StreamPrompt

_OF_SAMPLING: Final = {"temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"}
_WITHOUT_EFFECT: Final = re.compile(
    "(bos|eos|pad|decoder_start)_token_id|suppress_tokens|bad_words_ids|max_(length|new_tokens)|(use_)?cache.*|"
    "output_.*|return_dict_in_generate|transformers_version|_from_model_config"
)
"""Settings that are followed, that a stream has its own of, or that change no text."""


def follow_generation(prompt: StreamPrompt, folder: Path, *, needs_file: bool = False) -> None:
    """Let all end tokens of ``generation_config.json`` end a turn, and suppress the tokens that it bans.

    Without this file ``config.json`` counts, as for ``generate``, or nothing with ``needs_file``. Warns of settings
    that a stream does not follow. Raises ``CheckpointError`` for invalid ones.
    """
    has_file = (folder / GENERATION_FILE).is_file()
    if needs_file and not has_file:
        return
    path = folder / (GENERATION_FILE if has_file else "config.json")
    content = read_object(path)
    try:
        config = GenerationConfig.from_dict(content) if has_file else GenerationConfig.from_model_config(content)
        values = config.to_diff_dict()
        num_tokens = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config().vocab_size
        ends = _read_ids(values.get("eos_token_id"), num_tokens)
        bad_words = [_read_ids(word, num_tokens) for word in values.get("bad_words_ids") or ()]
        banned = _read_ids(values.get("suppress_tokens"), num_tokens)
    except Exception as error:  # transformers raises many types of exception for invalid settings
        raise CheckpointError(f"{path} has invalid generation settings: {first_line(error)}; correct it") from error
    banned += [word[0] for word in bad_words if len(word) == 1 and word[0] not in ends]  # as generate does
    prompt.other_ends = tuple(sorted({*ends} - {prompt.eos_id}))
    prompt.suppress_tokens += tuple(sorted({*banned} - {*prompt.suppress_tokens}))
    ignored = [] if all(len(word) == 1 for word in bad_words) else ["bad_words_ids of several tokens"]
    for name, value in values.items():
        has_effect = value and (value is True or value != 1)  # not None, False, 0 or {}, nor a penalty of 1
        is_read = _WITHOUT_EFFECT.fullmatch(name) or (name in _OF_SAMPLING and not values.get("do_sample"))
        ignored += [f"{name} {str(value)[:40]}"] if has_effect and not is_read else []
    if ignored:
        warnings.warn(
            f"{path} sets {', '.join(ignored)}, which a stream does not follow: it takes the most likely token unless "
            "its own settings sample",
            stacklevel=2,
        )


def _read_ids(ids: Any, num_tokens: int) -> list[int]:
    """Return one token or several as a list. Raises ``ValueError`` for one that the vocabulary lacks."""
    tokens = [] if ids is None else [ids] if isinstance(ids, int) else list(ids)
    if wrong := [token for token in tokens if type(token) is not int or not 0 <= token < num_tokens]:
        raise ValueError(f"a token is an integer from 0 to {num_tokens - 1}; got {wrong[0]!r}")
    return tokens
