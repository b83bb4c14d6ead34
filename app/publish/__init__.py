"""The static player: a folder that shows a finished run on any web server, read-only. No Gradio, no torch."""
