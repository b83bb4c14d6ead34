"""Training of the bundled checkpoint on synthetic scenes, stage by stage."""
