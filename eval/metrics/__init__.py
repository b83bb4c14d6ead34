"""All scores: definitions, counts and their computation."""
