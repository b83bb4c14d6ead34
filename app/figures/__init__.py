"""Figures of runs in Plotly, without Gradio and torch: the page draws them, and the command line writes them."""
