"""The Thresholds tab: sweeps of a run over the speak and the update threshold."""
