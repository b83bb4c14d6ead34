"""Verdicts and corrections by reviewers: their records, their store, and the state that they add up to."""
