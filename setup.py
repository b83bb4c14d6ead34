"""The packages of the wheel: the folders of the repository, below the one import name ``stepscope``."""

from setuptools import find_packages, setup

FOLDERS = ("engine", "eval", "app", "assets")
FOUND = find_packages(include=[pattern for folder in FOLDERS for pattern in (folder, f"{folder}.*")])

setup(
    packages=["stepscope", *(f"stepscope.{name}" for name in FOUND)],
    package_dir={"stepscope": "stepscope", **{f"stepscope.{folder}": folder for folder in FOLDERS}},
)
