"""The command ``stepscope`` and the server of the page."""
