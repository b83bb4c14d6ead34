"""transformers' own processor, forward and ``generate`` of an image-text model of the hub."""

import math
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
    "idefics3": {"do_image_splitting": False},
    "smolvlm": {"do_image_splitting": False},
    "internvl": {"crop_to_patches": False},
}
"""Options by which an image processor leaves an image whole, as it does with the frames of a video."""
_FOLLOWED: Final = ("eos_token_id", "pad_token_id", "bad_words_ids", "suppress_tokens")


class Reference:
    """The processor of a folder, and the model's own forward over whole conversations.

    The class of the processor is transformers' own. Processors of videos need torchvision and are left out: a frame
    that is a video of one picture passes through the image processor, as the first tile.
    """

    def __init__(self, folder: Path, model: HubModel) -> None:
        self._model, self._format = model, model.frame_format
        kind = self._format.model_type
        kind = {"smolvlm": "idefics3"}.get(kind, kind)  # which has no processor of videos, and writes images alike
        base: Any = getattr(transformers, PROCESSOR_MAPPING_NAMES[kind])
        without_checks = type(base.__name__, (base,), {"check_argument_for_proper_class": lambda *_: None})
        parts = {"tokenizer": read_tokenizer(folder)}
        with _explained(f"transformers cannot load the processor of {folder}"):
            values, _ = base.get_processor_dict(folder)
            parts["image_processor"] = AutoImageProcessor.from_pretrained(
                folder, backend="pil", trust_remote_code=False
            )
            given = [parts.get(name) for name in base.get_attributes()]
            self.processor: Any = without_checks.from_args_and_dict(given, values)
        self.processor.chat_template = self.processor.chat_template or parts["tokenizer"].chat_template

    def prepare(self, pictures: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
        """Return what the image processor makes of RGB pictures ``[H, W, 3]``, with its own names."""
        options = dict(_WHOLE.get(self._format.model_type, {}))
        images = self.processor.image_processor
        if self._model.has_grid:
            fewest = images.size["shortest_edge"]
            options["size"] = {"shortest_edge": fewest, "longest_edge": max(fewest, self._format.pixels)}
        if self._format.model_type in ("idefics3", "smolvlm"):
            options["return_row_col_info"] = True
        with _explained("the processor cannot prepare pictures"):
            return dict(images(list(pictures), return_tensors="pt", **options))

    def pixels(self, prepared: Mapping[str, Any]) -> Tensor:
        """Return the pixel values of prepared pictures; of each picture the whole, without tiles."""
        values: Tensor = prepared["pixel_values"]
        return values[:, :1] if self._format.is_video else values

    def ids(self, messages: Sequence[Message], prepared: Mapping[str, Any], *, as_generated: bool = False) -> list[int]:
        """Return the ids of a whole conversation up to its next reply.

        With ``as_generated``, past replies begin as the generation prompt, which is how they were written.
        """
        text = self._render(messages, opens=True)
        replies = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        for place in replies if as_generated else ():
            before, opened = self._render(messages[:place]), self._render(messages[:place], opens=True)
            past = self._render(messages[: place + 1]).removeprefix(before)
            opening = past[: past.index(messages[place]["content"][0]["text"])]
            if not opening.startswith(opened.removeprefix(before)):
                text = text.replace(before + opening, opened)
        with _explained("the processor cannot write pictures; its processor_config.json may be missing"):
            written = [self._write_picture(prepared, place) for place in range(text.count(self._token))]
        name = "videos_replacements" if self._format.is_video else "images_replacements"
        whole, _ = self.processor.get_text_with_replacements([text], **{name: written})
        tokenizer = self.processor.tokenizer
        has_bos = tokenizer.bos_token is not None and text.startswith(tokenizer.bos_token)
        return list(tokenizer(whole[0], add_special_tokens=not has_bos)["input_ids"])

    @property
    def _token(self) -> str:
        token = self.processor.video_token if self._format.is_video else self.processor.image_token
        return str(token)

    def _write_picture(self, prepared: Mapping[str, Any], place: int) -> str:
        if self._format.is_video:
            video = {"pixel_values_videos": [self.pixels(prepared)[place]]}
            return str(self.processor.replace_video_token(video, 0))
        return str(self.processor.replace_image_token(prepared, place))

    def _render(self, messages: Sequence[Message], *, opens: bool = False) -> str:
        with _explained("the processor's chat template cannot be rendered"):
            return str(self.processor.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opens))

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last hidden state ``[1, D]`` and the next-token logits ``[V]`` of the model's own forward.

        ``pixels [B, 3, H, W]`` are those of all pictures.
        """
        found = self._model.vlm(**self._inputs(ids, pixels), output_hidden_states=True)
        return found.hidden_states[-1][0, -1:], found.logits[0, -1].float()

    @torch.inference_mode()
    def generate(self, ids: Sequence[int], pixels: Tensor, *, max_new_tokens: int) -> list[int]:
        """Return the ids that ``generate`` writes greedily; of the published settings, those that name tokens count."""
        published = self._model.vlm.generation_config
        followed = {name: getattr(published, name, None) for name in _FOLLOWED}
        config = GenerationConfig(**followed, do_sample=False, max_new_tokens=max_new_tokens)
        found = self._model.vlm.generate(**self._inputs(ids, pixels), generation_config=config)
        ends = self.end_ids
        written = found[0, len(ids) :].tolist()
        return written[:-1] if written and written[-1] in ends else written

    @property
    def end_ids(self) -> set[int]:
        """The tokens at which ``generate`` stops."""
        ends = self._model.vlm.generation_config.eos_token_id
        return set(ends) if isinstance(ends, list) else {ends} - {None}

    def _inputs(self, ids: Sequence[int], pixels: Tensor) -> dict[str, Any]:
        device, image_id = self._model.device, self.processor.tokenizer.convert_tokens_to_ids(self._token)
        inputs = self._format.prepare(pixels.to(device, self._model.dtype))
        if self._format.is_video:
            inputs = {"pixel_values_videos": inputs["pixel_values"]}
        if self._format.model_type in ("idefics3", "smolvlm"):
            inputs = {"pixel_values": inputs["pixel_values"][None]}  # they take several images of one sample
        tokens = torch.tensor([list(ids)], device=device)
        if self._model.has_grid:
            inputs["mm_token_type_ids"] = (tokens == image_id).long()
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **inputs}


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Raise ``CheckpointError`` for an error of transformers, which raises many types of exception."""
    try:
        yield
    except Exception as error:
        raise CheckpointError(f"{problem}: {first_line(error)}") from error


def unfold_patches(values: Tensor, own: Tensor, *, patch: int, merge: int) -> Tensor | None:
    """Return the pixels ``[B, 3, H, W]`` of patches in the order of ``FrameFormat.prepare``; None if sizes differ."""
    num, _, height, width = own.shape
    if values.shape[0] != num * (height // patch) * (width // patch):
        return None
    pictures = values.unflatten(1, (3, -1, patch, patch))[:, :, 0]  # a tower for videos has each picture twice
    grid = (num, height // patch // merge, width // patch // merge, merge, merge, 3, patch, patch)
    assert math.prod(grid) == pictures.numel()
    return pictures.reshape(grid).permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(own.shape)
