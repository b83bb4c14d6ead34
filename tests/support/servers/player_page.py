"""A page with only a video and the player, served from packed runs: starts in a few seconds, for tests and timing.

``python -m tests.support.servers.player_page FOLDER PORT`` shows the first ``*.mp4`` and ``*.json`` of the folder; one
button per file shows that file. A split ``reviews/split.json`` enables reviews, with the store next to it.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from stepscope.app.player.component import make_player
from stepscope.app.player.review import answer
from stepscope.app.review_store.store import open_store
from stepscope.app.window.context import ReviewContext
from stepscope.app.window.increments import ActiveStreams
from stepscope.eval.data.loading import read_split
from tests.support.servers.small_page import launch


def main(folder: Path, port: int) -> None:
    """Serve the folder until interrupted."""
    reviews = open_reviews(folder / "reviews")
    packs, videos = sorted(folder.glob("*.json")), sorted(folder.glob("*.mp4"))
    with gr.Blocks(analytics_enabled=False, fill_width=True) as page:
        typing = gr.Textbox(label="typing", elem_id="typing")
        let_go = gr.Textbox(label="thresholds", elem_id="let_go")
        with gr.Row():
            choices = [gr.Button(path.name, elem_id=path.stem) for path in (*packs, *videos)]
        with gr.Column(elem_id="stage"):
            video = gr.Video(str(videos[0]), show_label=False, interactive=False, buttons=[], elem_id="video")
            player = make_player(
                video_id="video",
                elem_id="player",
                streams=ActiveStreams(),
                review=partial(_review, reviews) if reviews else None,
            )
        page.load(partial(packs[0].read_text, encoding="utf-8"), None, player, show_progress="hidden")
        for button, path in zip(choices, (*packs, *videos), strict=True):
            target = video if path.suffix == ".mp4" else player
            show = partial(str, path) if path.suffix == ".mp4" else partial(path.read_text, encoding="utf-8")
            button.click(show, None, target, show_progress="hidden")
        player.thresholds(_write_down, [let_go], [let_go], show_progress="hidden")
        player.against(_write_against, [let_go], [let_go], show_progress="hidden")
        typing.change(None, None, None, js="() => {}")
    launch(page, folder, port)


def open_reviews(folder: Path) -> ReviewContext | None:
    """Return the reviews of a folder with a split; None without one."""
    if not folder.exists():
        return None
    split = read_split(folder / "split.json")
    return ReviewContext(store=open_store(folder / "reviews.sqlite"), splits={"split": split})


def _review(reviews: ReviewContext, asked: dict[str, Any], request: Any) -> dict[str, Any]:
    return answer(reviews, asked, request=request)


def _write_down(before: str, event: gr.EventData) -> str:
    return f"{before or ''}{event.speak} {event.update};"


def _write_against(before: str, event: gr.EventData) -> str:
    return f"{before or ''}corrected {event.corrected};"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
