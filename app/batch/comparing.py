"""The tables of two runs held against each other; names and texts go into cells of type ``str`` only."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import gradio as gr

from app.batch.batches import Batches
from app.batch.results import figure, interval_words
from app.handlers import Bench
from app.words import sentence
from eval.compare import Difference
from eval.comparison import ComparedVideo
from eval.registry import find_metric
from eval.samples import Sample

VIDEO_HEADERS: Final = [
    "Video", "Response F1, A", "Response F1, B", "Update F1, A", "Update F1, B", "Both wrong", "Only A", "Only B"
]  # fmt: skip
TURN_HEADERS: Final = ["Video", "Second", "Wrong in", "Who", "Reference"]
CHOICES: Final = ["only A", "only B", "both", "neither"]
CHANCE: Final = 0.05


def draw_differences(differences: Mapping[str, Difference]) -> str:
    """Return the scores of both runs as markup, what chance would hardly do in bold."""
    heads = "".join(f"<th scope='col'>{word}</th>" for word in ("", "A", "B", "B - A", "95 % of it", "p"))
    rows = []
    for name, found in differences.items():
        tag = "b" if found.p_value < CHANCE else "span"
        rows.append(
            f'<tr tabindex="0" data-hint="{escape(find_metric(name).hint)}"><td>{escape(name)}</td>'
            f"<td>{figure(found.a)}</td><td>{figure(found.b)}</td><td><{tag}>{found.difference:+.3f}</{tag}></td>"
            f"<td>{interval_words([found.interval.low, found.interval.high])}</td><td>{found.p_value:.3f}</td></tr>"
        )
    return f'<table class="corpus"><tr>{heads}</tr>{"".join(rows)}</table>'


def compared_videos(videos: Sequence[ComparedVideo]) -> list[list[str | float | None]]:
    """Return a row per video: scores of both runs, and how many reference turns are wrong where."""
    rows: list[list[str | float | None]] = []
    for video in videos:
        scores = [of_run[name] for name in ("F1", "dst_f1") for of_run in video.scores]
        rounded = [None if score != score else round(score, 3) for score in scores]
        rows.append([video.video_id, *rounded, video.count("both"), video.count("only A"), video.count("only B")])
    return rows


def compared_turns(videos: Sequence[ComparedVideo], samples: Mapping[str, Sample], who: str) -> list[list[str | float]]:
    """Return a row per reference turn that is wrong in ``who``, one of ``CHOICES``."""
    rows: list[list[str | float]] = []
    for video in videos:
        for compared in video.turns:
            if compared.wrong_in == who:
                turn = samples[video.video_id].turns[compared.reference]
                rows.append([video.video_id, turn.time_s, compared.wrong_in, turn.role, turn.text])
    return rows


class Compared(NamedTuple):
    """The runs that the tables compare; a window may show another meanwhile."""

    a: str
    b: str
    videos: Sequence[ComparedVideo]


class CompareView(NamedTuple):
    """The outputs of the comparison."""

    compared: Any
    said: Any
    scores: Any
    videos: Any
    turns: Any


def compare(bench: Bench, batches: Batches, name: str | None, other: str | None, who: str) -> CompareView:
    """Hold the run that is shown (A) against another (B)."""
    try:
        if not name or not other or name == other:
            raise ValueError("choose two runs: A above, B here")
        found = batches.compare(name, other, encode=bench.encode)
    except (ValueError, OSError) as error:
        return CompareView(compared=None, said=sentence(error), scores="", videos=[], turns=[])
    left = f" {len(found.left_out)} videos are left out: not finished in both." if found.left_out else ""
    said = f"A is {name}, B is {other}; {len(found.videos)} videos.{left} A row opens both in the player."
    compared = Compared(name, other, found.videos)
    return CompareView(
        compared=compared,
        said=said,
        scores=draw_differences(found.differences),
        videos=compared_videos(found.videos),
        turns=choose_turns(batches, compared, who),
    )


def choose_turns(batches: Batches, compared: Compared | None, who: str) -> list[list[str | float]]:
    """Return the rows of the turns that are wrong in ``who``, of what is compared already."""
    split = None if compared is None else batches.split_of(batches.settings_of(compared.a))
    if compared is None or split is None:
        return []
    return compared_turns(compared.videos, {sample.video_id: sample for sample in split.samples}, who)


def others(batches: Batches, name: str | None, other: str | None) -> Any:
    """Offer the runs that the one that is shown can be held against."""
    names = [run for run in batches.names() if run != name]
    return gr.Dropdown(choices=names, value=other if other in names else None)
