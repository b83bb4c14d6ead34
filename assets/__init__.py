"""The bundled demo: the programs that draw its videos and train its checkpoint, and what they made."""
