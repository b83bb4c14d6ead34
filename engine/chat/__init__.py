"""Questions about a video: conversations, prompts, the prefix store, and workers that answer."""
