"""Readers of the result files of other systems, one module for each form."""
