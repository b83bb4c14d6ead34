"""The batch tab: a split run in the background, its tables, charts and comparisons."""
