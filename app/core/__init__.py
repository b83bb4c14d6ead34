"""What the page is about, without Gradio: videos, runs, recordings, saved runs, the queue of batch runs."""
