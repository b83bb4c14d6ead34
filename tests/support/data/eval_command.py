"""``python -m eval`` without Java, which takes seconds to start and is irrelevant to tests of signals."""

import sys
from unittest.mock import patch

from eval.__main__ import main
from tests.support.data.batches import no_java

if __name__ == "__main__":
    with patch("eval.cli.commands.TextScorer", no_java):
        sys.exit(main(sys.argv[1:]))
