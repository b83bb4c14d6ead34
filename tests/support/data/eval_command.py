"""``python -m stepscope.eval`` without Java and the sentence encoder, which tests of signals do not need."""

import sys
from unittest.mock import patch

from stepscope.eval.__main__ import main
from tests.support.data.batches import load_letters, no_java

if __name__ == "__main__":
    with (
        patch("stepscope.eval.cli.run_command.TextScorer", no_java),
        patch("stepscope.eval.cli.run_command.import_encoder", load_letters),
    ):
        sys.exit(main(sys.argv[1:]))
