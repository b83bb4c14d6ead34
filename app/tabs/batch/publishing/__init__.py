"""Publishing of a run or of a story as a static player."""
