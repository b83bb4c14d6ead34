"""The launch of the small pages of this folder, in the look of the product's page."""

from pathlib import Path

import gradio as gr

from stepscope.app.controls.widgets import MODULES
from stepscope.app.player.component import CSS as PLAYER_CSS
from stepscope.app.server.routes import plotly_routes, speech_routes
from stepscope.app.style.theme import CSS, make_theme


def launch(page: gr.Blocks, folder: Path, port: int) -> None:
    """Serve a page and the files of a folder until interrupted."""
    page.launch(
        app_kwargs={"routes": [MODULES.make_route(), *plotly_routes(), *speech_routes(lambda *_: None)]},
        server_port=port,
        allowed_paths=[str(folder)],
        css=CSS + PLAYER_CSS,
        head=MODULES.make_preloads(),
        theme=make_theme(),
        ssr_mode=False,
        quiet=True,
        enable_monitoring=False,
    )
