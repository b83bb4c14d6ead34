"""Selection of a run's videos by failure, cause, verdict and tag."""
