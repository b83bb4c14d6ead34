"""The tab *Runs*: all runs of the folder with notes, settings that differ and scores over time."""
