"""Workers that run the videos of a batch: the scheduler, with processes or a Ray cluster as its back end."""
