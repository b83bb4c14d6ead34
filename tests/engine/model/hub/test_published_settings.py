"""The image and generation settings that a model is published with, against transformers."""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoImageProcessor

from stepscope.engine.errors import CheckpointError
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import find_frame_pixels, identify_model
from stepscope.engine.model.features.frame_encoder import FrameResizer
from stepscope.engine.model.files.image_processors import PROCESSOR_FILES
from stepscope.engine.model.hub.families import MODEL_TYPES
from stepscope.engine.model.preprocessing import normalize_images
from stepscope.engine.records import FrameOutput
from tests.support.streams.hub import write_hub
from tests.support.streams.hub_runs import hub_parts, run_traced, settings

_CLIP: dict[str, Any] = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_HALF: dict[str, Any] = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_STEPS = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "do_convert_rgb": True,
    "rescale_factor": 1 / 255,
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "qwen2_vl": {
        **_CLIP,
        "min_pixels": 3136,
        "max_pixels": 12845056,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2VLProcessor",
    },
    "qwen2_5_vl": {
        **_CLIP,
        "min_pixels": 3136,
        "max_pixels": 12845056,
        "patch_size": 14,
        "merge_size": 2,
        "image_processor_type": "Qwen2_5_VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
    },
    "qwen3_vl": {
        **_HALF,
        "size": {"longest_edge": 16777216, "shortest_edge": 65536},
        "patch_size": 16,
        "merge_size": 2,
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
    },
    "llava": {
        **_CLIP,
        **_STEPS,
        "resample": 3,
        "do_center_crop": True,
        "size": {"shortest_edge": 28},
        "crop_size": {"height": 28, "width": 28},
        "image_processor_type": "CLIPImageProcessor",
    },
    "llava_onevision": {
        **_HALF,
        **_STEPS,
        "resample": 3,
        "do_pad": True,
        "size": {"height": 70, "width": 70},
        "image_grid_pinpoints": [[70, 70], [70, 140]],
        "image_processor_type": "LlavaOnevisionImageProcessor",
    },
    "internvl": {
        **_STEPS,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "crop_to_patches": False,
        "resample": 3,
        "size": {"height": 56, "width": 56},
        "image_processor_type": "GotOcr2ImageProcessorFast",
    },
    "idefics3": {
        **_HALF,
        **_STEPS,
        "resample": 1,
        "do_image_splitting": True,
        "do_pad": True,
        "max_image_size": {"longest_edge": 56},
        "size": {"longest_edge": 224},
        "image_processor_type": "Idefics3ImageProcessor",
    },
    "smolvlm": {
        **_HALF,
        **_STEPS,
        "resample": 1,
        "do_image_splitting": True,
        "do_pad": True,
        "max_image_size": {"longest_edge": 56},
        "size": {"longest_edge": 224},
        "image_processor_type": "SmolVLMImageProcessor",
    },
}
"""Image settings as published on the hub, for towers of the sizes of ``write_hub``."""
SHAPES = ((72, 128), (128, 72), (128, 128), (37, 50), (300, 400), (56, 56))


def edit(path: Path, **values: Any) -> None:
    """Set values of a JSON file, or remove those that are None."""
    content = (json.loads(path.read_text()) if path.exists() else {}) | values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def write_settings(folder: Path, values: dict[str, Any], *, layout: str = "preprocessor") -> None:
    """Write image settings in the file of transformers 4, or in the one file of transformers 5."""
    for name in PROCESSOR_FILES:
        (folder / name).unlink(missing_ok=True)
    if layout == "preprocessor":
        (folder / "preprocessor_config.json").write_text(json.dumps(values))
    else:
        (folder / "processor_config.json").write_text(
            json.dumps({"processor_class": "A", "image_processor": values, "video_processor": values})
        )


def prepare(checkpoint: Checkpoint, image: np.ndarray) -> torch.Tensor:
    """Return the normalised pixels of a frame as the stream makes them: ``[1, 3, H, W]``."""
    frame = FrameResizer(checkpoint.model).resize(image)
    return normalize_images([frame], size=frame.shape[:2], normalization=checkpoint.normalization)


def make_image(height: int, width: int) -> np.ndarray:
    """Return a picture of edges and noise, in which each method of resampling leaves other pixels."""
    noise = np.random.default_rng(0).integers(0, 90, (height, width, 3))
    rows, columns = np.indices((height, width))
    return (noise + 160 * ((rows // 5 + columns // 7) % 2)[..., None]).astype(np.uint8)


def open_published(folder: Path) -> Callable[..., Any]:
    """Return the published image processor of a folder, as a function of a picture and its options."""
    config = AutoConfig.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil", config=config)
    return lambda image, **options: processor(images=image, return_tensors="pt", **options)


@pytest.mark.parametrize("layout", ["preprocessor", "processor"])
@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_frames_have_the_pixels_of_the_published_image_processor(kind: str, layout: str, tmp_path: Path) -> None:
    folder = write_hub(tmp_path, kind)
    write_settings(folder, PUBLISHED[kind], layout=layout)
    checkpoint = load_model(folder, device="cpu")
    model, _ = hub_parts(checkpoint)
    read_published = open_published(folder)
    for shape in SHAPES:
        image = make_image(*shape)
        pixels = prepare(checkpoint, image)
        if model.has_grid:
            size = {"shortest_edge": model.frame_format.min_pixels, "longest_edge": model.frame_format.pixels}
            published = read_published(image, size=size)
            own = model.frame_format.prepare(pixels)
            assert torch.equal(own["image_grid_thw"], published["image_grid_thw"]), shape
            assert torch.allclose(own["pixel_values"], published["pixel_values"], atol=1e-5), shape
            assert model.count_frame_tokens(*shape) == published["image_grid_thw"].prod() // 4 + 2
            continue
        options = {"do_image_splitting": False} if kind in ("idefics3", "smolvlm") else {}
        published = read_published(image, **options)["pixel_values"].flatten(0, -4)
        assert torch.allclose(pixels[0], published[0], atol=1e-5), shape  # of an image in tiles, the whole one is first


def test_the_entry_of_the_processor_file_wins_over_the_older_file(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "internvl")
    write_settings(folder, {**PUBLISHED["internvl"], **_HALF}, layout="processor")
    (folder / "preprocessor_config.json").write_text(json.dumps(PUBLISHED["internvl"]))
    assert load_model(folder, device="cpu").normalization.mean == (0.5, 0.5, 0.5)
    edit(folder / "processor_config.json", image_processor=None)  # as transformers 4 wrote it
    assert load_model(folder, device="cpu").normalization.mean == (0.485, 0.456, 0.406)


def test_frames_as_videos_have_the_settings_of_the_processor_for_videos(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "llava_onevision")
    write_settings(folder, PUBLISHED["llava_onevision"])
    (folder / "video_preprocessor_config.json").write_text(json.dumps({**PUBLISHED["llava_onevision"], **_CLIP}))
    checkpoint = load_model(folder, device="cpu")
    assert checkpoint.normalization.mean == tuple(_CLIP["image_mean"])
    digest = checkpoint.digest
    edit(folder / "processor_config.json", video_processor={**PUBLISHED["llava_onevision"], "rescale_factor": 0.5})
    nested = load_model(folder, device="cpu")
    assert nested.normalization.scale == 0.5
    assert nested.digest != digest


@pytest.mark.parametrize(
    ("kind", "name", "mean"),
    [
        ("qwen2_vl", "Qwen2VLImageProcessor", _CLIP["image_mean"]),
        ("qwen2_5_vl", None, _CLIP["image_mean"]),
        ("llava", "CLIPImageProcessor", _CLIP["image_mean"]),
        ("llava", "SiglipImageProcessor", [0.5] * 3),
        ("internvl", "GotOcr2ImageProcessor", _CLIP["image_mean"]),
        ("smolvlm", None, [0.5] * 3),
    ],
)
def test_values_that_are_absent_are_those_of_the_class(
    kind: str, name: str | None, mean: list[float], tmp_path: Path
) -> None:
    folder = write_hub(tmp_path, kind)
    minimal = {"processor_class": "A"} | ({"image_processor_type": name} if name else {})
    write_settings(folder, minimal)
    checkpoint = load_model(folder, device="cpu")
    assert checkpoint.normalization.mean == tuple(mean)
    assert checkpoint.normalization.scale == 1 / 255
    if kind.startswith("qwen"):
        assert checkpoint.model.frame_size(20, 30) == (56, 84), "3,136 pixels are the fewest of the class"


def test_steps_that_are_turned_off_are_left_out(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen2_vl")
    for off in ({"do_normalize": False}, {"do_rescale": False}):
        write_settings(folder, PUBLISHED["qwen2_vl"] | off)
        checkpoint = load_model(folder, device="cpu")
        published = open_published(folder)(make_image(56, 84))["pixel_values"]
        own = hub_parts(checkpoint)[0].frame_format.prepare(prepare(checkpoint, make_image(56, 84)))["pixel_values"]
        assert torch.allclose(own, published.float(), atol=1e-3), off


@pytest.mark.parametrize(
    "values",
    [
        {"image_processor_type": "SiglipImageProcessor", "size": {"height": 28, "width": 28}, "resample": 3, **_HALF},
        {"image_processor_type": "LlavaImageProcessor", "do_pad": True, **PUBLISHED["llava"], "resample": 2},
        {"image_processor_type": "CLIPImageProcessor", **PUBLISHED["llava"], "size": {"shortest_edge": 40}},
    ],
    ids=["stretched", "padded", "resized to more than is cropped"],
)
def test_a_llava_takes_frames_as_its_own_image_processor_does(values: dict[str, Any], tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "llava")
    write_settings(folder, values)
    checkpoint, read_published = load_model(folder, device="cpu"), open_published(folder)
    for shape in SHAPES:
        published = read_published(make_image(*shape))["pixel_values"]
        assert torch.allclose(prepare(checkpoint, make_image(*shape)), published, atol=1e-5), shape


def test_frames_of_qwen3_have_its_fewest_pixels_at_common_aspects(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen3_vl")
    write_settings(folder, PUBLISHED["qwen3_vl"])
    model = load_model(folder, device="cpu").model
    assert find_frame_pixels(folder) == 81_920
    for shape in ((720, 1280), (1280, 720), (480, 640), (128, 128), (1080, 1920), (800, 1920), (360, 360), (20, 30)):
        assert 64 <= model.count_frame_tokens(*shape) - 2 <= 80, shape
    with pytest.warns(UserWarning, match="at most 50176 pixels, but the image processor of .* makes none below 65536"):
        small = load_model(folder, device="cpu", frame_pixels=50_176).model
    assert small.count_frame_tokens(720, 1280) == 45 + 2, "as its processor makes them with this maximum"


def test_the_most_pixels_of_the_processor_bound_the_default(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen2_5_vl")
    write_settings(folder, {**PUBLISHED["qwen2_5_vl"], "max_pixels": 28 * 28 * 16})
    assert find_frame_pixels(folder) == 28 * 28 * 16
    assert find_frame_pixels(folder, 50_176) == 50_176
    write_settings(folder, {**PUBLISHED["qwen2_5_vl"], "max_pixels": "many"})
    with pytest.raises(CheckpointError, match="no valid numbers of pixels"):
        find_frame_pixels(folder)


def break_index(folder: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


BROKEN: dict[str, Callable[[Path], object]] = {
    "processor_config.json": lambda folder: edit(folder / "processor_config.json", image_processor=[]),
    "has no image processor that can be used": lambda folder: edit(folder / "preprocessor_config.json", size="large"),
    "preprocessor_config.json": lambda folder: (folder / "preprocessor_config.json").unlink(),
    "generation_config.json": lambda folder: (folder / "generation_config.json").write_text("{"),
    "has invalid generation settings": lambda folder: edit(folder / "generation_config.json", eos_token_id=[10**6]),
    "template": lambda folder: (folder / "chat_template.jinja").write_text("{{ 1 / 0 }}"),
    "tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
}


@pytest.mark.parametrize("named", BROKEN)
def test_small_files_are_checked_before_the_weights(named: str, tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "smolvlm")
    write_settings(folder, PUBLISHED["smolvlm"])
    (folder / "model.safetensors").write_bytes(b"no weights")
    BROKEN[named](folder)
    with pytest.raises(CheckpointError, match=named):
        load_model(folder, device="cpu")


def test_a_file_of_the_index_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "llava")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    break_index(folder)
    with pytest.raises(CheckpointError, match=r"names weights that are missing, in model-0000.-of"):
        load_model(folder, device="cpu")


def test_another_resampling_or_end_token_is_another_model(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen2_vl")
    digests = [identify_model(folder).digest]
    for name, values in (
        ("preprocessor_config.json", {"resample": 2}),
        ("processor_config.json", {"image_processor": PUBLISHED["qwen2_vl"]}),
        ("generation_config.json", {"eos_token_id": [3, 1]}),
    ):
        edit(folder / name, **values)
        digests.append(identify_model(folder).digest)
    assert len({*digests}) == 4
    assert load_model(folder, device="cpu").digest == digests[-1]


def replies(outputs: list[FrameOutput]) -> list[str]:
    return [output.response for output in outputs if output.response is not None]


def stream(checkpoint: Checkpoint) -> tuple[list[str], list[Any]]:
    """Return the replies of a stream, and its context."""
    outputs, context = run_traced(checkpoint, replace(settings(checkpoint), max_new_tokens=8))
    return replies(outputs), context


def find_ids(checkpoint: Checkpoint, context: list[Any]) -> list[list[int]]:
    """Return the ids of each reply in a context, up to the end that its template writes."""
    _, prompt = hub_parts(checkpoint)
    opening, found = list(prompt.response_opening), []
    end = [prompt.eos_id] if prompt.feeds_eos else list(prompt.stream_opening)
    for start in range(len(context)):
        if context[start : start + len(opening)] == opening:
            rest = [*context[start + len(opening) :], *end]  # the last turn may wait for its end
            found.append(rest[: next(n for n in range(len(rest)) if rest[n : n + len(end)] == end)])
    return found


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "idefics3", "llava"])
def test_every_end_token_ends_a_reply(kind: str, tmp_path: Path) -> None:
    before = load_model(write_hub(tmp_path / "before", kind), device="cpu")
    texts, context = stream(before)
    ids = find_ids(before, context)
    end = ids[0][3]
    prompt = hub_parts(before)[1]
    for place in ("generation_config.json", "config.json"):
        folder = write_hub(tmp_path / place, kind)
        if place == "config.json":
            (folder / "generation_config.json").unlink()
            config = json.loads((folder / place).read_text())
            edit(folder / place, text_config={**config["text_config"], "eos_token_id": [prompt.eos_id, end]})
        else:
            edit(folder / place, eos_token_id=[prompt.eos_id, end])
        after = load_model(folder, device="cpu")
        shorter, context = stream(after)
        wanted = ids[0][: ids[0].index(end)]
        assert shorter[0] == prompt.text(wanted) != texts[0]
        assert find_ids(after, context)[0] == wanted, "the token of the template closes the turn, not the other end"
        generated = hub_parts(after)[0].vlm.generation_config.eos_token_id
        assert {*generated} == {prompt.eos_id, end}, "generate ends there, too"


def test_banned_tokens_are_never_written_and_other_settings_are_named(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "qwen2_5_vl")
    texts, context = stream(before := load_model(folder, device="cpu"))
    first, second = find_ids(before, context)[0][:2]
    path = folder / "generation_config.json"
    edit(path, bad_words_ids=[[first], [5, 6]], suppress_tokens=[second], repetition_penalty=1.05, temperature=0.7)
    named = r"generation_config.json sets bad_words_ids of several tokens, repetition_penalty 1.05, which a stream"
    with pytest.warns(UserWarning, match=named):
        after = load_model(folder, device="cpu")
    others, context = stream(after)
    assert not {first, second} & {token for ids in find_ids(after, context) for token in ids}
    assert others != texts
    edit(path, bad_words_ids=[[first]], do_sample=True, repetition_penalty=1.0, top_k=1)
    with pytest.warns(UserWarning, match=r"sets (do_sample True|temperature 0.7), (temperature|do_sample)"):
        load_model(folder, device="cpu")


def test_settings_that_change_no_text_are_not_named(tmp_path: Path) -> None:
    folder = write_hub(tmp_path, "smolvlm")
    neutral = {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.0, "do_sample": False, "max_new_tokens": 99}
    edit(folder / "generation_config.json", **neutral, bad_words_ids=[[8]], pad_token_id=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint = load_model(folder, device="cpu")
    assert 8 in checkpoint.prompt.suppress_tokens
