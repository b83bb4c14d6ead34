"""Search for moments in the runs of a split."""
