"""The libraries of a worker. The server that workers are forked from imports this module, and nothing else."""

from engine.imports import import_uncollected

import_uncollected("eval.runs.pools.worker")
