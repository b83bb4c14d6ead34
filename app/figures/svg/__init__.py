"""Writes the figures that the project builds as SVG, without a browser."""
