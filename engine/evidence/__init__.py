"""Evidence for one decision of a run: which pictures and texts of its context it rests on, by experiment."""
