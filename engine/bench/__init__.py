"""Benchmark modes of streaming, and models with random weights."""
