"""Measured constants of the cost model, in one file: per machine, and per architecture on it. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from engine.io.files import write_json
from engine.io.json_records import Amount, Count, Finite, parse_record, reading
from eval.planning.workload import PerVideo

CONSTANTS: Final = Path(__file__).with_name("constants.json")
"""The constants that come with the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConstants:
    """Constants of one architecture on one machine. Seconds are those of one device."""

    measured: str
    """The videos that were measured."""
    load_s: Amount
    """Loading the checkpoint."""
    encode_s: Amount | None
    """Encoding one frame; None if the vision tower was not measured."""
    pass_s: Amount
    """A forward pass, whatever its content."""
    row_s: Amount
    """Each video in a pass."""
    token_s: Amount
    """Each token in a pass."""
    context_s: Amount
    """Each token of the context of a video in a pass."""
    first_passes: PerVideo
    """Passes of the first video of a worker, whose drafts know no earlier responses."""
    passes: PerVideo
    """Passes that a further video takes part in; its drafts know the responses of the first."""
    tokens: PerVideo
    """Tokens fed, with drafts and look-ahead that were not kept."""
    context: PerVideo
    """Tokens in the context at the end."""
    weights_mb: Amount
    video_mb: Amount
    """Memory of each video in flight: context, decoder, pictures and features that wait."""
    feature_bytes: Count
    """Kept features of one frame, in float16."""
    held_out: Mapping[str, Finite] = field(default_factory=dict)
    """Relative errors of predictions for other videos, by quantity; 0.1 is 10 % too much."""
    held_out_videos: str = ""
    """These videos, of which nothing was fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Constants of one machine."""

    hardware: str
    """Processor, or GPU with processor, and number of cores."""
    device: str
    """``cpu`` or ``cuda``."""
    num_cores: Count
    num_devices: Count
    """GPUs; of a CPU its cores, each of which can run a process."""
    torch: str
    """Version of torch."""
    import_s: Amount
    """Importing the libraries in a process."""
    decode_megapixel_s: Amount
    """Decoding a million pixels, on one core."""
    decode_megabyte_s: Amount
    """Decoding a million bytes of packets, on one core."""
    decode_codecs: tuple[str, ...] = ("h264",)
    """Codecs of the measured videos; of others, these constants may be far off."""
    decode_frame_s: Amount
    """Decoding one sampled frame of the measured videos, for splits whose video files cannot be read."""
    score_s: Amount
    """Scoring a run, apart from its videos: Java and the sentence encoder, which start with the command."""
    score_video_s: Amount
    """Scoring one video."""
    tables_s: Amount = 0.0
    """From the analysis of the last video to the tables: intervals."""
    base_mb: Amount
    """Memory of a worker process without weights and videos."""
    run_bytes: Amount
    """Bytes of the tables of a run folder, apart from the videos."""
    video_bytes: Amount
    """Bytes of a run folder for each video, apart from its frames."""
    models: Mapping[str, ModelConstants]

    @property
    def cores_per_device(self) -> float:
        """Cores for each device if all devices are used."""
        return self.num_cores / max(self.num_devices, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    machines: tuple[Machine, ...]


def read_machines(path: Path = CONSTANTS) -> tuple[Machine, ...]:
    """Read a file of constants. Raises ``ValueError`` if it is invalid or does not exist."""
    try:
        with reading(path):
            text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist; `stepscope plan SPLIT --measure` writes one") from error
    try:
        return parse_record(_File, text).machines
    except ValueError as error:
        cure = "if another version wrote it, remove it and measure again with `stepscope plan SPLIT --measure`"
        raise ValueError(f"{path}: {error}; {cure}") from error


def find_machine(machines: Sequence[Machine], *, arch: str, hardware: str = "") -> Machine:
    """Return the first machine that has the architecture and whose name contains ``hardware``.

    Raises ``ValueError`` if there is none.
    """
    named = [machine for machine in machines if hardware.casefold() in machine.hardware.casefold()]
    found = next((machine for machine in named if arch in machine.models), None)
    if found is None:
        known = "; ".join(f"{', '.join(machine.models)} on {machine.hardware}" for machine in machines)
        where = f" on {hardware}" if hardware else ""
        command = f"stepscope plan SPLIT --measure --arch {arch} --constants FILE"
        raise ValueError(f"no constants of {arch}{where}; measure them with `{command}`, or choose one of: {known}")
    return found


def add_machine(path: Path, machine: Machine) -> None:
    """Write a machine into a file of constants; other machines and other models of the same machine stay."""
    machines = read_machines(path) if path.exists() else ()
    same = next((old for old in machines if (old.hardware, old.device) == (machine.hardware, machine.device)), None)
    if same is not None:
        machine = replace(machine, models={**same.models, **machine.models})
    others = [old for old in machines if old is not same]
    write_json(path, asdict(_File(machines=(*others, machine))))
