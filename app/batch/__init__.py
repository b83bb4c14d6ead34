"""The batch tab: background runs of a split, their tables, charts, threshold sweeps and comparisons."""
