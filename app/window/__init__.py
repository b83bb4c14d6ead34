"""What the page shares and what one window shows, without Gradio: the run, its data for the player."""
