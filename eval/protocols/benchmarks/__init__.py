"""The protocols of benchmarks, by kind of rule; ``eval.protocols.registry`` lists them."""
