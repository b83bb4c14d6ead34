"""The Hugging Face Space: the folder to push, and the model on ZeroGPU."""
