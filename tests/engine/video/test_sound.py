"""The sound of a video in copies for a browser, and as a waveform."""

from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.engine.video.reader import find_copy_reason, probe
from stepscope.engine.video.sound import PEAKS_PER_S, measure_peaks
from stepscope.engine.video.writer import convert_for_browser, write_h264
from tests.support.streams.odd import add_sound
from tests.support.streams.videos import write_plain


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 8 s of video in Matroska, with a tone from 3.0 to 4.5 s."""
    folder = tmp_path_factory.mktemp("loud")
    source = write_plain(folder / "silent.mkv", width=96, height=64, num_pictures=16)
    return add_sound(folder / "loud.mkv", source, length_s=8, loud_s=(3.0, 4.5))


def loud_span(path: Path) -> tuple[float, float, float]:
    """Return begin, end and level of what is louder than a tenth of the full scale."""
    per_s, peaks = measure_peaks(path)
    at = np.flatnonzero(peaks > 25)
    return at[0] / per_s, (at[-1] + 1) / per_s, float(np.median(peaks[at])) / 255


def test_the_waveform_has_the_tone_at_its_time(loud: Path) -> None:
    assert loud_span(loud) == pytest.approx((3.0, 4.5, 0.5), abs=0.03)


@pytest.mark.parametrize(("start_s", "duration_s"), [(2.0, 8.0), (3.5, 2.0)])
def test_a_copy_keeps_the_sound_at_its_time(loud: Path, tmp_path: Path, start_s: float, duration_s: float) -> None:
    copy = tmp_path / "copy.mp4"
    convert_for_browser(loud, copy, start_s=start_s, duration_s=duration_s)
    assert loud_span(copy) == pytest.approx((max(0.0, 3.0 - start_s), 4.5 - start_s, 0.5), abs=0.06)
    assert probe(copy).duration_s == pytest.approx(min(8.0 - start_s, duration_s), abs=0.1), "that of its pictures"


def test_a_video_without_sound_has_no_waveform(loud: Path, tmp_path: Path) -> None:
    silent = loud.with_name("silent.mkv")
    per_s, peaks = measure_peaks(silent)
    assert (per_s, len(peaks)) == (PEAKS_PER_S, 0)
    convert_for_browser(silent, tmp_path / "copy.mp4")
    assert len(measure_peaks(tmp_path / "copy.mp4")[1]) == 0


def test_a_copy_goes_on_after_damage_in_the_sound_at_which_browsers_stop(tmp_path: Path) -> None:
    path, copy = tmp_path / "loud.mp4", tmp_path / "copy.mp4"
    write_h264(tmp_path / "silent.mp4", [np.zeros((64, 96, 3), np.uint8)] * 16, fps=2)
    add_sound(path, tmp_path / "silent.mp4", length_s=8, loud_s=(3.0, 6.0))
    assert find_copy_reason(path) == ""
    content = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        places = [(packet.pos or 0, packet.size) for packet in container.demux(audio=0) if packet.size]
    for start, size in places[len(places) // 2 :][:10]:
        content[start : start + size] = bytes(size)
    path.write_bytes(content)
    assert find_copy_reason(path) == "browsers show no pictures from damage in its sound on"
    convert_for_browser(path, copy)
    assert loud_span(copy)[:2] == pytest.approx((3.0, 6.0), abs=0.1)
    assert find_copy_reason(copy) == ""
