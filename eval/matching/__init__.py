"""Matching of predictions with references in time and meaning."""
