"""The conversation of a browser window: its branches, and the prompts of its questions."""
