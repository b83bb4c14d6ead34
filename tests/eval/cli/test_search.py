"""The command ``search``."""

import pytest

from stepscope.eval.cli.options import SearchOptions
from stepscope.eval.cli.run_tables import search_runs


def test_search_without_a_run_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="name at least one run folder after the query"):
        search_runs(SearchOptions(query="missed", runs=()))
