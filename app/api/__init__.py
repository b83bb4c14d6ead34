"""The page for programs: named endpoints, and the WebSocket of conversations."""
