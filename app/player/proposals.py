"""Steps of a task, proposed by the model from the goal and a few frames of the video."""

import re
from contextlib import closing
from dataclasses import replace
from typing import Final

from stepscope.app.core.videos import Clip
from stepscope.app.figures.text import clean_text
from stepscope.app.formatting import as_sentence
from stepscope.app.player.views import PlayerView, show_status
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import Window
from stepscope.engine.chat.answering import AnswerEnd
from stepscope.engine.chat.prompts import Conversation, render_conversation
from stepscope.engine.chat.worker import ChatPrompt, ChatWorker, name_frames
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import strip_text
from stepscope.engine.model.features.frame_encoder import encode
from stepscope.engine.model.hub.prompt import HubPrompt
from stepscope.engine.plurals import format_count
from stepscope.engine.reasoning import split_reasoning
from stepscope.engine.video.reader import read_frames

MAX_STEPS: Final = 12
_NUM_FRAMES: Final = 4
_MAX_LETTERS: Final = 80
_MAX_TOKENS: Final = 200
_SYSTEM: Final = "You write down the steps of a task."
_REQUEST: Final = "The goal of this video is: {goal}. List its steps in order, in a few words, one on each line."
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|(?:step\s*)?\d+\s*[.:)])\s*", re.IGNORECASE)


def can_propose(context: AppContext) -> bool:
    """Return whether the page's model proposes steps."""
    return context.remote is None and isinstance(context.checkpoint.prompt, HubPrompt)


def needs_proposal(context: AppContext, clip: Clip, steps: str | None) -> bool:
    """Return whether a run of the user's own video begins with steps that the model proposes."""
    is_bare = bool(clip.content_digest) and clip.sample is None and not strip_text(steps or "")
    return is_bare and context.config.policy.has_updates and can_propose(context)


def propose_steps(context: AppContext, window: Window, goal: str | None) -> PlayerView:
    """Ask the model for the steps of a goal; return the box of steps, where they can be edited, and the status."""
    try:
        steps = ask_for_steps(context, window.clip, goal)
    except (EngineError, ValueError) as error:
        return show_status(as_sentence(error), is_problem=True)
    return PlayerView(show_status(f"{describe_proposal(steps)} Correct them, then press Run."), steps=steps)


def describe_proposal(steps: str) -> str:
    """Return a sentence that says how many steps the model proposed."""
    return f"The model proposed {format_count(len(steps.splitlines()), 'step')}."


def ask_for_steps(context: AppContext, clip: Clip | None, goal: str | None) -> str:
    """Ask the model for the steps of a goal; return them, one per line.

    Raises ``ValueError`` without video, goal or proposal, and ``EngineError`` for a video that cannot be read.
    """
    if clip is None or not strip_text(goal or ""):
        raise ValueError("the model proposes steps for a video and a goal; choose a video and enter its goal")
    steps = read_proposal(_ask(context, clip, strip_text(goal or "")))
    if not steps:
        raise ValueError("the model proposed no steps; enter them, one per line")
    return "\n".join(steps)


def read_proposal(text: str) -> list[str]:
    """Return the steps of an answer, numbered: lines without bullets and control characters, each once, at most 12.

    Example: ``1. Wash it`` and ``- Dry it`` are ``S1: Wash it`` and ``S2: Dry it``.
    """
    answer = split_reasoning(text)[1] or ""
    lines = (strip_text(_BULLET.sub("", clean_text(line))) for line in answer.splitlines())
    names = list(dict.fromkeys(line[:_MAX_LETTERS] for line in lines if line))[:MAX_STEPS]
    return [f"S{number}: {name}" for number, name in enumerate(names, start=1)]


def _ask(context: AppContext, clip: Clip, goal: str) -> str:
    codec, model = context.checkpoint.prompt, context.checkpoint.model
    assert isinstance(codec, HubPrompt)
    excerpt = clip.excerpt and replace(clip.excerpt, num_frames=_NUM_FRAMES)
    few = read_frames(clip.path, fps=min(clip.fps, _NUM_FRAMES / clip.duration_s), excerpt=excerpt)
    with closing(encode(context.checkpoint, few)) as frames:
        names, features = name_frames(model, list(frames)[:_NUM_FRAMES])
    talk = Conversation().ask(_REQUEST.format(goal=goal), pictures=names)
    pieces = render_conversation(codec, talk, base=codec.system(_SYSTEM))
    prompt = ChatPrompt(pieces=pieces, features=features)
    *_, end = ChatWorker(context.checkpoint).answer(prompt, max_new_tokens=_MAX_TOKENS)
    assert isinstance(end, AnswerEnd)
    return end.text
