"""Training on a split: its clips, validation by streaming, and the model card of the result."""
