"""Exports of reviewed videos: CSV, JSON, WebVTT, ELAN, Hugging Face datasets and corrected splits."""
