"""The view of one video of a run as a figure: its lanes and its signals over one time axis."""
