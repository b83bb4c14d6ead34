"""Corrections of references, and agreement between reviewers."""
