"""transformers' own processor, forward and ``generate`` of an image-text model of the hub."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoImageProcessor, GenerationConfig
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

from stepscope.engine.errors import CheckpointError, first_line
from stepscope.engine.model.files.loading import read_tokenizer
from stepscope.engine.model.hub.model import HubModel

Message = dict[str, Any]
_WHOLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "idefics3": {"do_image_splitting": False, "return_row_col_info": True},
    "smolvlm": {"do_image_splitting": False, "return_row_col_info": True},
    "internvl": {"crop_to_patches": False},
}
"""Options by which an image processor leaves an image whole, as it does with the frames of a video."""
_FOLLOWED: Final = ("eos_token_id", "pad_token_id", "bad_words_ids", "suppress_tokens")


class Reference:
    """The processor of a folder for some pictures, RGB ``[H, W, 3]``, and the model's own passes over conversations.

    Processors of videos need torchvision and are left out: a frame that is a video of one picture passes through the
    image processor, as the first tile. Raises ``CheckpointError`` if transformers cannot load or use the processor.
    """

    def __init__(self, folder: Path, model: HubModel, pictures: Sequence[NDArray[np.uint8]]) -> None:
        self._model, self._format = model, model.frame_format
        kind = self._format.model_type
        # the class of Idefics3 writes images alike, and has no processor of videos, which needs num2words
        base: Any = getattr(transformers, PROCESSOR_MAPPING_NAMES["idefics3" if kind == "smolvlm" else kind])
        without_checks: Any = type(base.__name__, (base,), {"check_argument_for_proper_class": lambda *_: None})
        parts: dict[str, Any] = {"tokenizer": read_tokenizer(folder)}
        options = dict(_WHOLE.get(kind, {}))
        with _explained(f"transformers cannot load the processor of {folder}"):
            values, _ = base.get_processor_dict(folder)
            images = AutoImageProcessor.from_pretrained(folder, backend="pil", config=model.vlm.config)
            parts["image_processor"] = images
            self._processor: Any = without_checks.from_args_and_dict(
                [parts.get(name) for name in base.get_attributes()], values
            )
            self._processor.chat_template = self._processor.chat_template or parts["tokenizer"].chat_template
            if model.has_grid:
                fewest = images.size["shortest_edge"]
                options["size"] = {"shortest_edge": fewest, "longest_edge": max(fewest, self._format.pixels)}
            self._prepared = images(list(pictures), return_tensors="pt", **options)
        self._kind = "video" if self._format.is_video else "image"
        self._token = str(getattr(self._processor, f"{self._kind}_token"))

    @property
    def pixel_values(self) -> Tensor:
        """The pixel values of the pictures in the form of the vision tower; of each picture the whole, no tiles."""
        values: Tensor = self._prepared["pixel_values"]
        return values[:, :1] if self._format.is_video else values

    @property
    def end_ids(self) -> set[int]:
        """The tokens at which ``generate`` stops."""
        ends = self._model.vlm.generation_config.eos_token_id
        return set(ends) if isinstance(ends, list) else {ends} - {None}

    def say(self, role: str, text: str, *, pictures: int = 0) -> Message:
        """Return a message of pictures and a text."""
        texts = [{"type": "text", "text": text}] if text else []
        return {"role": role, "content": [{"type": self._kind}] * pictures + texts}

    def ids(self, messages: Sequence[Message], *, as_generated: bool = False) -> list[int]:
        """Return the ids of a whole conversation up to its next reply.

        With ``as_generated``, past replies begin as the generation prompt, which is how they were written.
        """
        with _explained("the processor cannot write a conversation; a file of it may be missing"):
            text = self._render(messages, opens=True)
            replies = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
            for place in replies if as_generated else ():
                before, opened = self._render(messages[:place]), self._render(messages[:place], opens=True)
                past = self._render(messages[: place + 1]).removeprefix(before)
                opening = past[: past.index(messages[place]["content"][0]["text"])]
                if not opening.startswith(opened.removeprefix(before)):
                    text = text.replace(before + opening, opened)
            written = [self._write_picture(place) for place in range(text.count(self._token))]
            whole, _ = self._processor.get_text_with_replacements([text], **{f"{self._kind}s_replacements": written})
        tokenizer = self._processor.tokenizer
        has_bos = tokenizer.bos_token is not None and text.startswith(tokenizer.bos_token)
        return list(tokenizer(whole[0], add_special_tokens=not has_bos)["input_ids"])

    def _write_picture(self, place: int) -> str:
        if self._format.is_video:
            return str(self._processor.replace_video_token({"pixel_values_videos": [self.pixel_values[place]]}, 0))
        return str(self._processor.replace_image_token(self._prepared, place))

    def _render(self, messages: Sequence[Message], *, opens: bool = False) -> str:
        return str(self._processor.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opens))

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the last hidden state ``[1, D]`` of the model's own forward.

        ``inputs`` are all pictures as ``FrameFormat.prepare`` returns them.
        """
        hidden = self._model.vlm(**self._complete(ids, inputs), output_hidden_states=True).hidden_states
        last: Tensor = hidden[-1][0, -1:]
        return last

    @torch.inference_mode()
    def generate(self, ids: Sequence[int], inputs: Mapping[str, Tensor], *, max_new_tokens: int) -> list[int]:
        """Return the ids that ``generate`` writes greedily; of the published settings, those that name tokens count."""
        published = self._model.vlm.generation_config
        followed = {name: getattr(published, name, None) for name in _FOLLOWED}
        config = GenerationConfig(**followed, do_sample=False, max_new_tokens=max_new_tokens)
        found = self._model.vlm.generate(**self._complete(ids, inputs), generation_config=config)
        written: list[int] = found[0, len(ids) :].tolist()
        return written[:-1] if written and written[-1] in self.end_ids else written

    def _complete(self, ids: Sequence[int], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tokens = torch.tensor([list(ids)], device=self._model.device)
        named = {name: value.to(self._model.device) for name, value in inputs.items()}
        pixels = named.pop("pixel_values").to(self._model.dtype)
        if self._format.model_type in ("idefics3", "smolvlm"):
            pixels = pixels[None]  # they take several images of one sample
        named["pixel_values_videos" if self._format.is_video else "pixel_values"] = pixels
        if self._model.has_grid:
            named["mm_token_type_ids"] = (tokens == self._processor.image_token_id).long()
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **named}


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Raise ``CheckpointError`` for an error of transformers, which raises many types of exception."""
    try:
        yield
    except Exception as error:
        raise CheckpointError(f"{problem}: {first_line(error)[:200]}") from error
