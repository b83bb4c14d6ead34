"""The live tab: a webcam, a network stream or a file in real time, and questions while it runs."""
