"""The bundled demo: its videos and checkpoint, and the programs that draw and train them."""
