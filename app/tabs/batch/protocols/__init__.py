"""The tab *Protocols*: one run, or two, under several published protocols side by side."""
