"""Scores of the replies themselves: when they come, how long they hold, whether they repeat."""
