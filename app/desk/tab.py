"""The reviews tab's layout and wiring; what happens is in ``app.desk.handlers``."""

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.batch.batches import Batches
from app.desk.desk import Desk
from app.handlers import Bench


def make_desk_tab(
    bench: Bench, batches: Batches, desk: Desk, *, live: Any, player: Sequence[Any], rooms: Any, here: Any
) -> None:
    """Lay out the tab, inside ``here``, and wire it.

    Args:
        bench: The page's model and videos.
        batches: Runs and splits.
        desk: The store and what is reviewed.
        live: The window's own run, in the player.
        player: Outputs of the player, in the order of ``app.batch.saved.open_video``.
        rooms: The ``gr.Tabs``.
        here: The ``gr.Tab`` of this tab.
    """
    gr.Dropdown(list(desk.splits), label="Split", interactive=True, elem_id="reviewed_split")
