"""Charts of runs, sweeps and comparisons."""
