"""Captions of reviewed videos."""

import html
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from stepscope.app.exports.rows import Tables
from stepscope.app.exports.tabulate import build_tables
from stepscope.app.exports.writers.elan import write_eaf
from stepscope.app.exports.writers.webvtt import write_webvtt
from stepscope.eval.annotations.corrections import Correction
from stepscope.eval.data.samples import Turn
from tests.support.data.strategies import TEXTS, few
from tests.support.reviews.reviewed import EVIL, NAMES, SAMPLE, reviewed_video

MOVED = Correction(reviewer="=cmd()", kind="boundary", turn=NAMES[3], time_s=3.5)


PLAIN_EVIL = EVIL.replace("\ud83d", "?")


def parse_webvtt(text: str) -> list[tuple[str, str, str]]:
    """Return times, voice and text of each cue, by the rules of the format: a blank line ends a cue."""
    header, *blocks = text.rstrip("\n").split("\n\n")
    assert header == "WEBVTT"
    cues = []
    for block in blocks:
        _, times, payload = block.split("\n")
        voice, _, words = payload.removeprefix("<v ").partition(">")
        assert "<" not in words
        assert "-->" not in payload
        cues.append((times, html.unescape(voice), html.unescape(words)))
    return cues


def test_captions_name_their_track_and_hold_hostile_texts_whole(tmp_path: Path) -> None:
    write_webvtt(tmp_path / "boat.vtt", build_tables([reviewed_video(MOVED)]))
    cues = parse_webvtt((tmp_path / "boat.vtt").read_text())
    assert ("00:00:01.500 --> 00:00:03.500", "model: assistant", PLAIN_EVIL.replace("\0", "\ufffd")) in cues
    assert ("00:00:03.500 --> 00:00:05.500", "corrected: update", "S2->start") in cues
    assert ("00:00:01.000 --> 00:00:06.000", "model state: S1", "in_progress") in cues
    assert ("00:00:01.500 --> 00:00:03.500", "verdicts: <script>", "unclear (generated)") in cues
    note = next(words for _, voice, words in cues if voice == "verdicts: =cmd()")
    assert note == f"unclear [+1, {PLAIN_EVIL}]: {PLAIN_EVIL} (generated)".replace("\0", "\ufffd")


def test_a_reply_span_is_shown_for_its_length_in_captions_and_in_elan(tmp_path: Path) -> None:
    turn = Turn(time_s=1.0, role="assistant", text="Hang it.", end_s=4.25)
    video = reviewed_video(sample=replace(SAMPLE, turns=(turn,)))
    write_webvtt(tmp_path / "boat.vtt", build_tables([video]))
    assert ("00:00:01.000 --> 00:00:04.250", "reference: assistant", "Hang it.") in parse_webvtt(
        (tmp_path / "boat.vtt").read_text()
    )
    write_eaf(tmp_path / "boat.eaf", video)
    root = ElementTree.parse(tmp_path / "boat.eaf").getroot()
    slots = {slot.get("TIME_SLOT_ID"): slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")}
    found = root.find("TIER[@TIER_ID='corrected: assistant']/ANNOTATION/ALIGNABLE_ANNOTATION")
    assert found is not None
    assert [slots[found.get(f"TIME_SLOT_REF{end}")] for end in (1, 2)] == ["1000", "4250"]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(0, 10**7))
@few
def test_captions_come_back_as_they_were(texts: list[str], start_ms: int) -> None:
    row = build_tables([reviewed_video()]).predictions[0]
    rows = tuple(replace(row, text=text, time_s=start_ms / 1000) for text in texts)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.vtt")
        write_webvtt(path, Tables(predictions=rows))
        cues = parse_webvtt(path.read_bytes().decode())
    assert [words for _, _, words in cues] == [text.replace("\0", "\ufffd") for text in texts]
    hours, rest = divmod(start_ms, 3_600_000)
    minutes, ms = divmod(rest, 60_000)
    assert cues[0][0].startswith(f"{hours:02}:{minutes:02}:{ms / 1000:06.3f} --> ")
