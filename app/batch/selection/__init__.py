"""Selection of a run's videos by failures, causes, verdicts and tags."""
