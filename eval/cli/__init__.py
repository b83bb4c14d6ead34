"""The commands of the evaluation and their options."""
