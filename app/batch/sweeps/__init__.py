"""The Thresholds tab."""
