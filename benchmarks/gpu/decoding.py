"""Decoding with NVDEC against the selective decoder in software."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.gpu.settings import Figure, Figures, Settings, SkippedError

_SAMPLED_FPS: Final = 2.0
_DURATION_S: Final = 10


def run(settings: Settings) -> Figures:
    """Yield the times of each codec. Raises ``SkippedError`` if PyAV or the machine lacks NVDEC."""
    settings.need_gpu()
    if missing := [name for name in ("av", "cv2") if find_spec(name) is None]:
        raise SkippedError(f"needs the packages {', '.join(missing)}")
    from benchmarks.engine import decode  # noqa: PLC0415 - needs PyAV and OpenCV
    from stepscope.engine.errors import VideoError  # noqa: PLC0415
    from stepscope.engine.video.hardware import check_hardware  # noqa: PLC0415 - needs PyAV

    try:
        check_hardware("cuda", [settings.device])
    except VideoError as error:
        raise SkippedError(str(error)) from error
    with TemporaryDirectory() as folder:
        for name, encoding in decode.ENCODINGS.items():
            path = Path(folder) / f"video{encoding.suffix}"
            with ThreadPoolExecutor(1) as pool:  # as in ``benchmarks.engine.decode``
                pool.submit(decode.write_video, path, encoding, num_pictures=_DURATION_S * decode.FPS).result()
            read = partial(decode.sample, path, fps=_SAMPLED_FPS)
            exact, times = decode.measure(partial(read, decoders=decode.DECODERS["selective"]))
            yield Figure(name=name, value=times[0], unit="s", note=f"software, {times[1]:.2f} s CPU")
            note = decode.describe_gpu(path, _SAMPLED_FPS, exact, times)
            yield Figure(name=f"{name}, NVDEC", value=note)
