"""Speech: texts as sound. No torch."""
