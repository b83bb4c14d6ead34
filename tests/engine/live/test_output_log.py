"""The outputs of a live session on disk: any slice of them, as a list has it."""

from dataclasses import replace
from pathlib import Path

from stepscope.engine.live.frames import make_gap
from stepscope.engine.live.output_log import OutputLog
from stepscope.engine.records import FrameOutput, read_outputs


def make_output(index: int) -> FrameOutput:
    gap = make_gap(index, fps=2, before=None, initial={"S1": "not_started"})
    return replace(gap, speak_prob=index % 7 / 7, update_prob=0.25, latency_ms=1.5, response=f"é {index}" * (index % 3))


def test_a_log_returns_every_slice_of_a_list(tmp_path: Path) -> None:
    outputs = [make_output(index) for index in range(700)]
    log = OutputLog(tmp_path / "run.jsonl", num_kept=50)
    for output in outputs:
        log.append(output)
    for first, end in [(0, 700), (0, 3), (255, 258), (640, 660), (649, 651), (690, 700), (10, 10), (700, 900)]:
        assert log[first:end] == outputs[first:end]
    assert (log[0], log[-1], log[300], len(log)) == (outputs[0], outputs[-1], outputs[300], 700)
    log.close()
    assert log[:300] == outputs[:300]
    assert list(read_outputs(log.path)) == outputs
