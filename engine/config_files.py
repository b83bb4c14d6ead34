"""Reads files of stream settings: those of a user, and the presets of published assistants."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import yaml

from stepscope.engine.config import StreamConfig
from stepscope.engine.io.files import BLANKS, INVISIBLE, read_text

PRESETS: Final[Mapping[str, Path]] = {
    path.stem: path for path in sorted((Path(__file__).parent / "decisions" / "presets").glob("*.yaml"))
}
"""The presets by name: files of settings, whose comments say where each fact comes from."""
FRAME_PIXELS: Final = "frame_pixels"
"""The one key of a preset that is an option of the model, not of the stream."""
_BLANK: Final = rf"[\s{INVISIBLE}]"


class _NoAliasLoader(yaml.SafeLoader):
    """Refuses aliases, with which a short file can define an exponentially large mapping."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it repeats a value by an alias; write the value out")
        return super().compose_node(parent, index)


def read_config(path: Path | None, *, preset: str = "", **overrides: Any) -> StreamConfig:
    """Return the settings of a preset and of a file; the file wins over the preset, and ``overrides`` over both.

    Raises ``ValueError`` naming the file if it is not a mapping of ``StreamConfig`` fields.
    """
    values = {} if path is None else _read_settings(path)
    of_preset = {name: value for name, value in read_preset(preset).items() if name != FRAME_PIXELS}
    return StreamConfig(**{**of_preset, **values, **overrides})


def read_preset(preset: str) -> dict[str, Any]:
    """Return the settings of a preset, by its name or the path of a file; none for an empty text.

    Raises ``ValueError`` for an unknown name, and as ``read_config``.
    """
    if not preset:
        return {}
    path = PRESETS.get(preset, Path(preset))
    if preset not in PRESETS and not path.is_file():
        raise ValueError(f"there is no preset {preset}; choose from {', '.join(PRESETS)}, or name a file")
    return _read_settings(path, FRAME_PIXELS)


def _read_settings(path: Path, *more: str) -> dict[str, Any]:
    """Return a YAML or JSON mapping of ``StreamConfig`` fields, or of ``more`` keys."""
    known = {field.name for field in fields(StreamConfig)} | {*more}
    values = read_yaml(path, keys=known) or {}
    if not isinstance(values, dict) or not set(values) <= known:
        unknown = sorted(map(str, set(values) - known)) if isinstance(values, dict) else "not a mapping"
        raise ValueError(f"{path} must map settings of StreamConfig to values; found {unknown}")
    return values


def read_yaml(path: Path, *, keys: Iterable[str] = ()) -> Any:
    """Return the content of a YAML or JSON file; ``keys`` may be followed by a colon and any blanks.

    Raises ``ValueError`` naming the file if it cannot be read.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from error
    return parse_yaml(text, name=str(path), keys=keys)


def parse_yaml(text: str, *, name: str, keys: Iterable[str] = ()) -> Any:
    """Return the content of a YAML or JSON text, as ``read_yaml``; errors begin with its name."""
    # YAML takes only a space and a tab for blanks; a text, such as a French prompt, keeps its own
    colon = re.compile(rf"^([ \t]*[\"']?(?:{'|'.join(keys)})[\"']?){_BLANK}*:{_BLANK}+")
    try:
        lines = [line.lstrip(f"{INVISIBLE}\xa0").rstrip(BLANKS) for line in text.split("\n")]
        return yaml.load("\n".join(colon.sub(r"\1: ", line) for line in lines), Loader=_NoAliasLoader)
    except RecursionError:
        raise ValueError(f"{name} cannot be read as YAML: it is nested too deep") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        words = " ".join((error.problem or error.context or "").replace("'<stream end>'", "the end").split())
        raise ValueError(f"{name} cannot be read as YAML: {line}{words}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{name} cannot be read as YAML: {' '.join(str(error).split())}") from error
