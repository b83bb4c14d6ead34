"""Components that several tabs share, and their wiring."""
