"""The command ``stepscope space``."""

from stepscope.app.space.folder import write_space
from stepscope.app.space.options import SpaceOptions


def space(options: SpaceOptions) -> None:
    """Write the folder of a Space and print the command that pushes it."""
    write_space(options)
    print(f"written: {options.out}")
    print(f"push it: hf upload NAME/stepscope {options.out} . --repo-type space")
