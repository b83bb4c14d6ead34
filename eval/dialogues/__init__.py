"""Dialogues for annotated videos: from steps and updates to the turns of a user and an assistant, and their check."""
