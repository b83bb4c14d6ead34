"""Questions about the displayed run, and free conversations."""
