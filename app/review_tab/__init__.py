"""The reviews tab."""
