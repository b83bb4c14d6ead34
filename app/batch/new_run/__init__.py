"""The form of a new run: its entries, own splits, and the start."""
