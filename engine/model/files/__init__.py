"""Files of a checkpoint: where they are found, their configuration, tensors and adapters."""
