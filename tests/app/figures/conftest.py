"""A run of one video of four frames, as ``tests.support.data.scored_run`` writes it."""

import math

import pytest

from stepscope.eval.reports.table_files import Results, read_results
from tests.support.data.scored_run import score
from tests.support.paths import ASSETS


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return score(tmp_path_factory.mktemp("charts") / "run")


@pytest.fixture(scope="session")
def without_probabilities(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The same run, imported from a model that gives no probability to speak."""
    return score(tmp_path_factory.mktemp("charts") / "imported", speak_probs=(math.nan,) * 4)


@pytest.fixture(scope="session")
def diagnosed() -> Results:
    """The bundled run, with its diagnosis."""
    return read_results(ASSETS / "demo" / "run")
