"""The settings of workers, from the options of ``run`` and ``sweep``."""

from stepscope.engine.config import StreamConfig
from stepscope.engine.model.checkpoint_folder import find_policy_of, fit_policy
from stepscope.eval.cli.options import StreamOptions
from stepscope.eval.runs.worker_messages import WorkerConfig


def make_worker_config(
    options: StreamOptions, config: StreamConfig, *, live: bool = False, batch_size: int | None = None
) -> WorkerConfig:
    """Return the settings of workers; ``config`` gets the policy of a checkpoint without trained heads."""
    trained = find_policy_of(options.checkpoint, heads=options.heads)
    return WorkerConfig(
        checkpoint=options.checkpoint,
        heads=options.heads,
        quantize=options.quantize,
        frame_pixels=options.frame_pixels,
        config=fit_policy(config, trained, name=options.checkpoint),
        live=live,
        features=options.features,
        hardware_decoding=options.hardware_decoding,
        batch_size=batch_size,
    )
