"""Published protocols that score when and what a system says; ``__all__`` is the public interface.

``eval.protocols.benchmarks`` has the rules, and docs/protocols.md a table of all. A minimal use::

    from stepscope.eval.protocols import score_protocol

    references = [(10.0, 10.0), (20.0, 20.0)]  # start and end in seconds
    replies = [(9.0, 1.0), (12.0, 0.5), (30.0, 1.0)]  # time in seconds and accuracy
    print(score_protocol("streampro-ou", references, replies)["f1"])  # 0.3
"""

from stepscope.eval.protocols.registry import PROTOCOLS, score_protocol

__all__ = ["PROTOCOLS", "score_protocol"]
