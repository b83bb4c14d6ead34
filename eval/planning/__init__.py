"""A cost model: time, memory and storage of a run, predicted from a split and from measured constants."""
