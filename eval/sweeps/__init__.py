"""Threshold sweeps."""
