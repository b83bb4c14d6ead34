"""Why a run failed, by experiment: which failures are roots, what follows from each, and what would prevent it."""
