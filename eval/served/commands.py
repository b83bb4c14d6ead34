"""``stepscope run``: a video through a checkpoint, or through a served model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from stepscope.engine.cli.commands import find_decoder, read_task
from stepscope.engine.cli.commands import run as run_checkpoint
from stepscope.engine.decisions.signals import SILENCE, list_states
from stepscope.engine.dialogue import parse_user_turn
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import read_text
from stepscope.engine.plurals import format_count
from stepscope.engine.video.reader import probe, read_frames
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.runs.folder import digest_video
from stepscope.eval.runs.imports.system_output import find_by_names
from stepscope.eval.served.answer_log import AnswerLog, open_answers
from stepscope.eval.served.chat import Endpoint
from stepscope.eval.served.options import RunVideoOptions
from stepscope.eval.served.prompts import DEFAULT_PROMPT, FramePrompt
from stepscope.eval.served.stream import Served, can_ask, stream_video


def run_video(options: RunVideoOptions) -> int | None:
    """Stream one video: with ``--endpoint`` to a served model, else through a checkpoint."""
    if not options.endpoint:
        if options.resume:
            raise ValueError("--resume continues a recording of --endpoint; give both, or leave out --resume")
        run_checkpoint(options)
        return None
    if options.branch is not None:
        raise ValueError("--branch changes a run of a checkpoint; a served model keeps no stream to branch from")
    served, device = _served(options), find_decoder(options)
    if not options.video.is_file():
        raise ValueError(f"there is no video {options.video}")
    served = replace(served, asks=can_ask(served))
    if served.has_questions and not served.asks:
        print("warning: the server gives no logprobs, so no questions are asked", file=sys.stderr)
    sample = _find_sample(options)
    fps = options.stream.fps if sample is None else sample.fps
    if sample is None:
        task = replace(read_task(options), user_turns=tuple(map(parse_user_turn, options.user)))
    else:
        task = build_task(sample)
    settings = _settings(served, options)
    excerpt = None if sample is None else sample.excerpt
    expected = round(probe(options.video).duration_s * fps) if sample is None else sample.num_frames
    read = read_frames(options.video, fps=fps, excerpt=excerpt, device=device)
    frames = tqdm(read if sample is None else islice(read, sample.num_frames), total=expected, unit="frame")
    origin = {
        **settings,
        "task": asdict(task),
        "fps": fps,
        "excerpt": excerpt and asdict(excerpt),
        "video": digest_video(options.video),
    }
    name = options.video.stem if sample is None else sample.video_id
    with (
        frames,
        RunRecorder(
            options.out,
            model=options.model,
            settings=settings,
            signals=served.describe_signals(),
            split=options.split,
            has_states=served.asks,
        ) as run,
        open_answers(options.out, name, origin, resume=options.resume) as answers,
    ):
        if run.is_finished(name):
            if not options.resume:
                raise ValueError(f"{options.out} holds a recording of {name} already; name a new --out")
            answers.remove()
            print(f"{name} is recorded in {options.out} already")
            return None
        with (
            _explaining(answers, options.out),
            run.video(name, fps=fps, video_path=options.video, goal=task.goal, steps=task.steps) as video,
        ):
            num_late = stream_video(served, frames, task, video, fps=fps, answers=answers)
            count = video.num_frames
        answers.remove()
    print(f"{format_count(count, 'frame')} of {name} recorded in {options.out}")
    if num_late:
        print(
            f"warning: {format_count(num_late, 'frame was', 'frames were')} late and left out; they count as silent",
            file=sys.stderr,
        )
    return None


@contextmanager
def _explaining(answers: AnswerLog, out: Path) -> Iterator[None]:
    """Print, below the error of a recording, how to continue it."""
    try:
        yield
    except (EngineError, ValueError, OSError):
        if answers:
            tqdm.write(
                f"{out} keeps {format_count(len(answers), 'answer')}; the same command with --resume asks for the rest",
                file=sys.stderr,
            )
        raise


def _settings(served: Served, options: RunVideoOptions) -> dict[str, Any]:
    """Return the settings that determine the answers; limits of time and of requests do not."""
    settings = {
        "endpoint": {"url": served.endpoint.url, "model": served.endpoint.model},
        "prompt": asdict(served.prompt),
        "max_tokens": served.config.max_new_tokens,
        "is_real_time": served.is_real_time,
    }
    if served.asks:
        settings["asks"] = {"update_threshold": served.config.update_threshold}
    if options.hardware_decoding != "off":
        settings["hardware_decoding"] = options.hardware_decoding
    return settings


def _served(options: RunVideoOptions) -> Served:
    if not options.model.strip():
        raise ValueError("--model is missing; name the served model")
    template = DEFAULT_PROMPT
    if options.prompt is not None:
        try:
            template = read_text(options.prompt)
        except (OSError, ValueError) as error:
            raise ValueError(f"the prompt {options.prompt} cannot be read as text: {error}") from error
    config = options.stream
    states = list_states(config.policy, config.states)
    prompt = FramePrompt(
        template=template,
        silence=states.get(SILENCE, FramePrompt().silence).strip(),
        num_pictures=options.pictures,
        system=config.system_prompt,
        states=states,
    )
    return Served(
        endpoint=Endpoint(
            url=options.endpoint,
            model=options.model,
            timeout_s=options.timeout_s,
            num_retries=options.retries,
            requests_per_minute=options.requests_per_minute,
        ),
        prompt=prompt,
        config=config,
        is_real_time=options.real_time,
    )


def _find_sample(options: RunVideoOptions) -> Sample | None:
    if options.split is None:
        return None
    try:
        return find_by_names([options.video.name], read_split(options.split))
    except ValueError as error:
        raise ValueError(f"{options.video} {error}") from error
