"""The program in the browser: the player's component, its scripts, and the data that they draw."""
