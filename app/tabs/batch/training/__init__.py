"""The Training tab: the clips of a split, checked and counted, and the curves of a training run."""
