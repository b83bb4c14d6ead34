"""Tables, charts and comparisons of scored runs."""
