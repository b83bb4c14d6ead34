"""Opens a video, a run or a moment in the player, from any tab."""
