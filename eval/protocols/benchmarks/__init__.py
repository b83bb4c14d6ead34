"""The protocols, one module for each benchmark; ``eval.protocols.registry`` finds their ``PROTOCOLS``."""
