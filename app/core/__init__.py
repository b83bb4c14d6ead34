"""The core of the page, without Gradio: videos, runs, recordings, saved runs, the queue of batch runs."""
