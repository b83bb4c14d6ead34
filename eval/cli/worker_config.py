"""The settings of workers, from the options of ``run`` and ``sweep``."""

from dataclasses import replace

from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint_folder import find_policy_of
from stepscope.eval.cli.options import StreamOptions
from stepscope.eval.runs.worker_messages import WorkerConfig


def make_worker_config(
    options: StreamOptions, config: StreamConfig, *, live: bool = False, batch_size: int | None = None
) -> WorkerConfig:
    """Return the settings of workers; ``config`` gets the policy of a checkpoint without trained heads."""
    policy = find_policy_of(options.checkpoint, heads=options.heads)
    if policy is not None and config.policy.source == "heads":
        config = replace(config, decision_policy=policy)  # its heads are missing or not trained
    return WorkerConfig(
        checkpoint=options.checkpoint,
        heads=options.heads,
        quantize=options.quantize,
        frame_pixels=options.frame_pixels,
        config=config,
        live=live,
        features=options.features,
        hardware_decoding=options.hardware_decoding,
        batch_size=batch_size,
    )
