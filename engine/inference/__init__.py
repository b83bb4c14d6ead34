"""Forward passes: KV caches, packed batches, CUDA graphs, sampling and readout."""
