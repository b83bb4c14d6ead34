"""The page as a server: routes, limits, identity, access, and every patch of Gradio."""
