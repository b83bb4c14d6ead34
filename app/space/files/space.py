"""Starts the page as the Hub does: ``python space.py``."""

import sys

if __name__ == "__main__":  # the workers of a batch run import this file too
    from stepscope.app.space.commands import main

    sys.exit(main())
