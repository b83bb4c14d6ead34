"""The environment of a Space becomes options of the page."""

from pathlib import Path

import pytest

from stepscope.app.cli.options import PageOptions
from stepscope.app.cli.space import space_arguments
from stepscope.engine.cli.program import parse


def options(environment: dict[str, str], volume: Path) -> PageOptions:
    return parse(PageOptions, space_arguments(environment, volume=volume), prog="space.py")


def test_without_settings_the_page_is_served_where_the_hub_looks(tmp_path: Path) -> None:
    found = options({}, tmp_path / "absent")
    assert (found.host, found.port, found.allowed_host, found.runs, found.reviews) == (
        *("0.0.0.0", 7860, (), Path("runs")),
        None,
    )


def test_the_address_is_that_of_the_environment(tmp_path: Path) -> None:
    names = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": "7000", "SPACE_HOST": "lab-stepscope.hf.space"}
    found = options(names, tmp_path / "absent")
    assert (found.host, found.port, found.allowed_host) == ("127.0.0.1", 7000, ("lab-stepscope.hf.space",))
    assert options({**names, "PORT": "8000"}, tmp_path / "absent").port == 8000


def test_a_mounted_folder_keeps_runs_and_reviews(tmp_path: Path) -> None:
    found = options({}, tmp_path)
    assert (found.runs, found.reviews) == (tmp_path / "runs", None)


@pytest.mark.parametrize("where", ["postgresql://db/reviews", "kept.sqlite"])
def test_reviews_may_be_elsewhere(tmp_path: Path, where: str) -> None:
    assert options({"STEPSCOPE_REVIEWS": where}, tmp_path).reviews == where


def test_a_folder_of_reviews_holds_the_store(tmp_path: Path) -> None:
    found = options({"STEPSCOPE_REVIEWS": str(tmp_path)}, tmp_path / "absent")
    assert found.reviews == str(tmp_path / "reviews.sqlite")
