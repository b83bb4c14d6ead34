"""The published Llama-based assistants, VideoLLM-online and ProAssist: their layout, model and prompts."""
