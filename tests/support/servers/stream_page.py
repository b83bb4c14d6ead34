"""A page whose player shows a streaming run, advanced by clicks.

``python -m tests.support.servers.stream_page FOLDER PORT`` serves it. The folder has ``a.mp4``. ``step`` adds frames,
``whole`` sends the complete run so far, ``begin`` restarts.
"""

import sys
from dataclasses import replace
from pathlib import Path

import gradio as gr

from stepscope.app.player.component import make_player
from stepscope.app.window.increments import ActiveStreams
from stepscope.app.window.payload import pack_run
from tests.support.pages.long_run import make_long_run, with_signals
from tests.support.servers.small_page import launch

NUM_FRAMES, NUM_TURNS, STEP = 200, 90, 7


class Scripted:
    """A streaming run that is advanced by the buttons."""

    def __init__(self, folder: Path) -> None:
        run = make_long_run(folder / "a.mp4", num_frames=NUM_FRAMES, num_turns=NUM_TURNS, num_steps=4)
        self.run = with_signals(run, 3)
        self.streams = ActiveStreams()
        self.begin()

    def begin(self) -> str:
        self.increments = self.streams.begin(replace(self.run, outputs=(), is_finished=False))
        self.step()
        return self.increments.since(0)

    def step(self) -> None:
        reached = len(self.increments.outputs)
        for output in self.run.outputs[reached : reached + STEP]:
            self.increments.add(output)

    def whole(self) -> str:
        return pack_run(replace(self.run, outputs=tuple(self.increments.outputs[:]), is_finished=False))


def main(folder: Path, port: int) -> None:
    """Serve until interrupted."""
    scripted = Scripted(folder)
    with gr.Blocks(analytics_enabled=False, fill_width=True) as page:
        with gr.Row():
            names = ("begin", "step", "whole")
            buttons = {name: gr.Button(name, elem_id=name) for name in names}
        with gr.Column(elem_id="stage"):
            gr.Video(str(folder / "a.mp4"), show_label=False, interactive=False, buttons=[], elem_id="video")
            player = make_player(video_id="video", elem_id="player", streams=scripted.streams)
        for name in names:
            shown = player if name in ("begin", "whole") else None
            buttons[name].click(getattr(scripted, name), None, shown, show_progress="hidden")
    launch(page, folder, port)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
