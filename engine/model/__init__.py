"""Model families, checkpoints, prompts and frame features."""
