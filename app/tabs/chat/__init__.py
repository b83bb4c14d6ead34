"""Questions about the displayed run: the panel below the player, and the WebSocket for programs."""
