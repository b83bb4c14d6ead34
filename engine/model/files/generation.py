"""The generation settings of a checkpoint folder: which tokens end a turn, and which are never written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig, GenerationConfig

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.checkpoint_files import GENERATION_FILE, read_object

_OF_SAMPLING: Final = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")
_WITHOUT_EFFECT: Final = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "suppress_tokens", "bad_words_ids"),
    *("max_length", "max_new_tokens", "use_cache", "cache_implementation", "cache_config", "return_dict_in_generate"),
    *("output_scores", "output_logits", "output_attentions", "output_hidden_states", "transformers_version"),
    *("_from_model_config",),
)
"""Settings that are followed, that a stream has its own of, or that change no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSettings:
    """What ``generate`` of transformers would do by itself."""

    end_ids: tuple[int, ...] = ()
    """The tokens that end a text."""
    suppress_tokens: tuple[int, ...] = ()
    """The tokens that are never written."""
    ignored: tuple[str, ...] = ()
    """Settings that a stream does not follow, such as ``repetition_penalty 1.05``."""


def read_generation(folder: Path, *, needs_file: bool = False) -> GenerationSettings:
    """Read ``generation_config.json``, or without it ``config.json``, as ``generate`` does.

    With ``needs_file`` there are no settings without the file. Raises ``CheckpointError`` for invalid settings.
    """
    has_file = (folder / GENERATION_FILE).is_file()
    if needs_file and not has_file:
        return GenerationSettings()
    file = folder / (GENERATION_FILE if has_file else "config.json")
    content = read_object(file)
    try:
        config = GenerationConfig.from_dict(content) if has_file else GenerationConfig.from_model_config(content)
        num_tokens = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config().vocab_size
        values = config.to_diff_dict()
        end_ids = _read_ids(values.get("eos_token_id"), num_tokens)
        bad_words = [_read_ids(word, num_tokens) for word in values.get("bad_words_ids") or ()]
        banned = [word[0] for word in bad_words if len(word) == 1 and word[0] not in end_ids]
        suppressed = (*banned, *_read_ids(values.get("suppress_tokens"), num_tokens))
    except Exception as error:  # transformers raises many types of exception for invalid settings
        raise CheckpointError(f"{file} has invalid generation settings: {first_line(error)}; correct it") from error
    ignored = [] if all(len(word) == 1 for word in bad_words) else ["bad_words_ids of several tokens"]
    is_sampled = bool(values.get("do_sample"))
    for name, value in values.items():
        is_neutral = not value or (value == 1 and value is not True)  # None, False, 0, {}; a penalty of 1
        has_effect = name not in _WITHOUT_EFFECT and (is_sampled or name not in _OF_SAMPLING)
        if has_effect and not is_neutral:
            ignored.append(name if value is True else f"{name} {str(value)[:40]}")
    return GenerationSettings(
        end_ids=tuple(dict.fromkeys(end_ids)),
        suppress_tokens=tuple(dict.fromkeys(suppressed)),
        ignored=tuple(ignored),
    )


def _read_ids(ids: Any, num_tokens: int) -> list[int]:
    """Return a token, or several, as a list. Raises ``ValueError`` for one that the vocabulary lacks."""
    listed = [] if ids is None else [ids] if isinstance(ids, int) else list(ids)
    for token in listed:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < num_tokens:
            raise ValueError(f"a token is an integer from 0 to {num_tokens - 1}; got {token!r}")
    return listed
