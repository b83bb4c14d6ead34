"""``stepscope presets``: the settings of published assistants."""

from dataclasses import dataclass

from tyro.conf import Positional

from stepscope.engine.cli.program import Options
from stepscope.engine.config_files import PRESETS
from stepscope.engine.io.files import read_text


@dataclass(frozen=True, kw_only=True)
class PresetsOptions(Options):
    """List the presets, or print one, to be changed in a file of your own."""

    name: Positional[str] = ""
    """The preset to print."""


def print_presets(options: PresetsOptions) -> None:
    """Print the names and first lines of all presets, or the file of one. Raises ``ValueError`` for an unknown name."""
    if not options.name:
        for name, path in PRESETS.items():
            print(f"{name:<11} {read_text(path).splitlines()[0].removeprefix('# ')}")
        return
    if options.name not in PRESETS:
        raise ValueError(f"there is no preset {options.name}; choose from {', '.join(PRESETS)}")
    print(read_text(PRESETS[options.name]), end="")
