"""Fine-tuning on annotated clips."""
