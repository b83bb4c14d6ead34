"""The player: video, dialogue, states and decision traces of one run on one clock; ``static`` is its program."""
