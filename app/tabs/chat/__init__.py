"""Questions about the displayed run: the panel beside the player, and the WebSocket for programs."""
