"""Forward passes: caches, packed batches, CUDA graphs, sampling and readout."""
