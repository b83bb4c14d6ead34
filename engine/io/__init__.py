"""Files: atomic writes, JSON and CSV, and our own records from JSON."""
