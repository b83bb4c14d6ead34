"""State of one browser window: its run, recordings, references and link parameters."""
