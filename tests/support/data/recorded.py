"""A recorded run of one video, small enough to work its scores out by hand."""

from pathlib import Path
from typing import Final

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.eval.data.samples import Turn
from stepscope.eval.recorder import RunRecorder

SIGNALS: Final = (
    SignalSpec(name="yes", label="says <yes>", threshold=0.5, decides="speak"),
    SignalSpec(name="informative", low=0, high=2, threshold=1.6, decides="speak", policy="running-sum"),
    SignalSpec(name="not talk", threshold=0.5, decides="speak", policy="drop"),
    SignalSpec(name="brightness", high=255),
)
VALUES: Final = {
    "yes": (0.0, 0.1, 0.9, 0.2, 0.1, 0.8, 0.3, 0.0),
    "informative": (0.5,) * 8,
    "not talk": (0.9, 0.9, 0.3, 0.9, 0.9, 0.2, 0.9, 0.9),
    "brightness": tuple(range(8)),
}
"""At 1 frame/s. The falls of ``not talk`` are 0.6 at 2 s and 0.7 at 5 s."""
REFERENCE_S: Final = (2.0, 5.0)


def record_toy(folder: Path, *, has_reference: bool = True, specs: tuple[SignalSpec, ...] = SIGNALS) -> Path:
    """Record the video ``boat`` with ``VALUES``, replies at 2 s and 6 s and references at ``REFERENCE_S``."""
    turns = [Turn(time_s=time_s, role="assistant", text="Hang the sail.") for time_s in REFERENCE_S]
    with (
        RunRecorder(folder, model="org/toy", signals=specs) as run,
        run.video("boat", fps=1, goal="build", turns=turns if has_reference else None) as video,
    ):
        for frame in range(8):
            said = "Hang the sail." if frame in (2, 6) else None
            values = {spec.name: VALUES[spec.name][frame] for spec in specs}
            video.frame(frame, signals=values, response=said, state="respond" if said else "silent")
    return folder
