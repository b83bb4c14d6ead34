"""The streaming engine: frames, tokens and tensors."""
