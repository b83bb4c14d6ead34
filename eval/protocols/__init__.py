"""Published protocols that score when and what a system says; ``__all__`` is the public interface.

``eval.protocols.benchmarks`` has the rules, and docs/protocols.md a table of all, and an example.
"""

from stepscope.eval.protocols.registry import PROTOCOLS, score_protocol

__all__ = ["PROTOCOLS", "score_protocol"]
